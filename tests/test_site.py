"""The website works from a disk: no network, no server, nothing missing."""

import os
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from sidebyside.course.record import ROOT
from tests.lab import browser_page
from tests.test_browser import has_chromium  # noqa: F401, a fixture

pytestmark = pytest.mark.everything

SOLUTIONS = sorted(ROOT.glob("solutions/*.ipynb"))
LESSON = "solutions/15a_pipeline_parallel"
DRAWN = """() => [...document.querySelectorAll(".math")].every(
    formula => formula.querySelector("mjx-container svg")
)"""


class Page(HTMLParser):
    """What a page links to and what can be linked in it; its pictures and folds."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names, self.links, self.alts, self.folds = set(), [], [], 0
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list) -> None:
        found = dict(attrs)
        self.names.add(found.get("id"))
        self.links += [(tag, found[key]) for key in ("href", "src") if found.get(key)]
        self.alts += [found.get("alt")] if tag == "img" else []
        self.folds = 0 if tag == "article" else self.folds + (tag == "details")


read = cache(Page)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "resources" / "site" / "build.py", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if "cannot be had" in done.stdout:
        pytest.fail(done.stdout) if os.environ.get("CI") else pytest.skip(done.stdout)
    return folder


@pytest.fixture
def page(site, has_chromium):  # noqa: F811
    """A browser's page that has no network, and has not asked for it."""
    with browser_page() as page:
        page.context.set_offline(True)
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert {urlsplit(url).scheme for url in asked} <= {"file", "data", "blob"}
        assert errors == []


def leads_somewhere(path: Path, link: str) -> bool:
    url = urlsplit(link)
    target = path.parent / unquote(url.path) if url.path else path
    anchors = url.fragment and target.suffix == ".html"
    return target.exists() and (
        not anchors or unquote(url.fragment) in read(target).names
    )


def test_every_link_of_every_page_leads_somewhere(site):
    pages = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    assert len(pages) > 150
    links = [(path, tag, link) for path in pages for tag, link in read(path).links]
    remote = [found for found in links if urlsplit(found[2]).scheme]
    assert {tag for _, tag, link in remote if not link.startswith("data:")} == {"a"}
    inside = [(path, link) for path, _, link in links if not urlsplit(link).scheme]
    assert [found for found in inside if not leads_somewhere(*found)] == []


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_a_lesson_keeps_its_outputs_its_descriptions_and_its_folds(site, path):
    lesson = site / "solutions" / f"{path.stem}.html"
    cells = nbformat.read(path, as_version=4).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    html = [
        out.data["text/html"] for out in outputs if "text/html" in out.get("data", {})
    ]
    figures = [output.get("metadata", {}).get("image/png") for output in outputs]
    assert [text for text in html if text not in lesson.read_text("utf-8")] == []
    assert [alt for alt in read(lesson).alts if alt] == [f["alt"] for f in figures if f]
    assert read(lesson).folds == "".join(texts + html).count("<details")


def test_a_lesson_names_its_exercises_and_hands_out_its_open_notebook(site, page):
    page.goto((site / f"{LESSON}.html").as_uri())
    box = page.locator(".admonition", has_text="Do it yourself")
    assert box.get_by_text("how many micro-batches?").is_visible()
    button = box.locator("a", has_text="Download the open lesson")
    lesson = (ROOT / LESSON.replace("solutions", "lessons")).with_suffix(".ipynb")
    handed_out = site / "solutions" / button.get_attribute("href")
    assert handed_out.read_bytes() == lesson.read_bytes()


def test_formulas_of_every_lesson_are_drawn(site, page):
    for path in sorted(site.glob("solutions/*.html")):
        page.goto(path.as_uri())
        page.wait_for_function(DRAWN)
        assert page.locator("mjx-merror").count() == 0, path.name


def test_a_fold_opens(site, page):
    page.goto((site / f"{LESSON}.html").as_uri())
    hint = page.locator("details", has_text="Hint 1: a question").first
    inside = hint.get_by_text("equal micro-batches can you cut")
    assert not inside.is_visible()
    hint.locator("summary").click()
    assert inside.is_visible()


def test_a_diagram_is_drawn(site, page):
    page.goto((site / "solutions/02_processes_and_threads.html").as_uri())
    page.locator(".highlight-mermaid svg").first.wait_for()


def test_a_word_is_found(site, page):
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("micro-batch")
    page.keyboard.press("Enter")
    page.locator(
        "#search-results a", has_text="15a. Pipeline parallel"
    ).first.wait_for()


def test_a_reader_chooses_dark(site, page):
    page.goto((site / "index.html").as_uri())
    grounds = set()
    for name in ("Light", "Dark"):
        page.locator(".theme-switch-button:visible").click()
        page.locator(".theme-change-button:visible", has_text=name).click()
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2
