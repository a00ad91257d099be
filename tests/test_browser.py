"""A newcomer's first minute, in a real JupyterLab and a real browser."""

import os
import re
import shutil

import pytest

from lessons.source import build
from sidebyside.course.lesson_format import lessons
from tests.lab import browser_page, chromium, jupyterlab, run_all_cells

pytestmark = pytest.mark.everything

LESSON = "lessons/00_start_here.ipynb"
DOCUMENTS = (
    "resources/workshop/glossary.md",
    "resources/workshop/03_the_gil.md",
    "README.md",  # the last one, whose pictures are looked at, too
)
PICTURE_IS_THERE = """() => {
    const picture = document.querySelector(".jp-MarkdownViewer img[alt^=Four]");
    return picture && picture.naturalWidth > 200;
}"""
LISTED = """names => names.join() === [
    ...document.querySelectorAll(".jp-DirListing-itemText")
].map(item => item.innerText).join()"""
BELOW = "img => img.closest('.jp-OutputArea-child').nextElementSibling.innerText"
PROMPTS = ".jp-Notification, .Toastify__toast, .jp-toastContainer .jp-toast, .jp-Dialog"


@pytest.fixture
def has_chromium():
    if chromium() is None and os.environ.get("CI"):
        pytest.fail("in CI, Chromium must be installed")
    if chromium() is None:
        pytest.skip("this machine has no Chromium")


@pytest.fixture
def course(has_chromium, tmp_path):
    """The lessons and what they link to; to save them does not change the project's."""
    if not (build.ROOT / LESSON).exists():
        pytest.fail(f"{LESSON} has not been built")
    (tmp_path / "lessons").mkdir()
    for path in build.ROOT.glob("lessons/*.ipynb"):
        shutil.copy(path, tmp_path / "lessons")
    for folder in ("resources/figures", "resources/workshop", "demos"):
        if (build.ROOT / folder).exists():
            shutil.copytree(build.ROOT / folder, tmp_path / folder)
    return tmp_path


def test_lesson_00_opens_and_runs_with_nothing_else_to_click(course, tmp_path):
    with (
        jupyterlab(course, LESSON, tmp_path / "private") as url,
        browser_page() as page,
    ):
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        page.wait_for_selector(".jp-Notebook .jp-MarkdownOutput h1")
        assert re.search(r"/lab/tree/lessons/00_start_here\.ipynb", page.url)
        idle = page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")
        idle.wait_for(state="attached")
        page.wait_for_timeout(3000)  # news would come up about now
        assert page.locator(PROMPTS).all_inner_texts() == []
        name = page.locator(".jp-Toolbar-kernelName").first.inner_text()
        assert "Python 3 (ipykernel)" in name

        save(page)
        ours = (build.ROOT / LESSON).read_bytes()
        assert (course / LESSON).read_bytes() == ours, "it was only opened"

        run_all_cells(page)
        idle.wait_for(state="attached")
        assert page.locator(PROMPTS).all_inner_texts() == []
        save(page)
        saved = (course / LESSON).read_text(encoding="utf-8")
        assert "iopub.execute_input" in saved, "of each cell, when it was run"
        problems = page.locator("[data-mime-type='application/vnd.jupyter.error']")
        assert problems.count() == 0
        assert page.locator(".jp-OutputArea-output").count() > 5
        pictures = page.locator(".jp-OutputArea-output img")
        assert pictures.count() >= 1
        pictures.first.scroll_into_view_if_needed()
        pictures.first.wait_for()
        box = pictures.first.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 50
        for picture in pictures.all():  # JupyterLab drops `alt`
            assert picture.evaluate(BELOW).startswith("The figure in words")

        assert errors == []


def save(page) -> None:
    """As JupyterLab does by itself after two minutes."""
    page.locator(".jp-Notebook").first.click(position={"x": 5, "y": 5})
    with page.expect_response(lambda r: r.request.method == "PUT" and "ipynb" in r.url):
        page.keyboard.press("Control+s")


def test_the_command_opens_own_copies_and_markdown_is_rendered(has_chromium, tmp_path):
    home = tmp_path / "ada"
    start = ("-m", "sidebyside", "--folder", str(home), "--")
    with (
        jupyterlab(tmp_path, "", tmp_path / "private", start=start) as url,
        browser_page(height=1200) as page,
    ):
        page.goto(url)
        page.locator(".jp-MarkdownViewer a", has_text="00 Start here").first.click()
        page.wait_for_selector(".jp-Notebook .jp-MarkdownOutput h1")
        assert "/lab/tree/my_lessons/00_start_here.ipynb" in page.url
        page.wait_for_selector(".jp-DirListing-itemText")
        names = ["00_first_page.md", *(f"{lesson.name}.ipynb" for lesson in lessons())]
        page.wait_for_function(LISTED, arg=names)

        server = page.url.partition("/lab/tree/")[0]
        for document in DOCUMENTS:
            page.goto(f"{server}/lab/tree/{document}")
            title = (build.ROOT / document).read_text(encoding="utf-8").splitlines()[0]
            rendered = page.locator(".jp-MarkdownViewer h1").get_by_text(title[2:])
            rendered.wait_for()
        page.wait_for_function(PICTURE_IS_THERE)
