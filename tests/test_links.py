"""Links lead somewhere, in documents and notebooks, and in a learner's copies."""

import re
from pathlib import Path

import nbformat
import pytest

from lessons.source.instructor_page import FENCE, HEADING
from lessons.source.where_next import GLOSSARY, TAG, demos_of_lesson
from sidebyside.course.lesson_format import lessons, parse_lesson
from sidebyside.course.record import ROOT
from tests import tiny_course as tiny
from tests.lesson_rules import LINK

LESSONS = lessons()
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", ".github/*.md", "resources/**/*.md")
    for path in ROOT.glob(pattern)
)
NOTEBOOKS = sorted([*ROOT.glob("lessons/*.ipynb"), *ROOT.glob("solutions/*.ipynb")])
ELSEWHERE = re.compile(r"https?://|mailto:|attachment:|data:")


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    """What is read: of a notebook its Markdown cells; without code."""
    if path.suffix != ".ipynb":
        return FENCE.sub("", path.read_text(encoding="utf-8"))
    cells = nbformat.read(path, 4).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    return "\n\n".join(FENCE.sub("", text) for text in texts)


def links(path: Path) -> list[str]:
    """Where its relative links lead, as they are written."""
    targets = [target for _, _, target in LINK.findall(text_of(path))]
    return [target for target in targets if not ELSEWHERE.match(target)]


def anchors(path: Path) -> set[str]:
    """What may stand after # in a link to this page, as GitHub makes it of headings."""
    titles = [title.strip().lower() for _, title in HEADING.findall(text_of(path))]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def lost(path: Path, folder: Path) -> list[str]:
    """The links of the page that lead nowhere when it lies in `folder`."""
    found = []
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = folder / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("path", DOCUMENTS + NOTEBOOKS, ids=short)
def test_every_link_leads_somewhere(path):
    assert lost(path, path.parent) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=short)
def test_links_hold_in_a_folder_of_a_learners_own_copies(path):
    """Other notebooks are in the same folder, all else is reached from the top."""
    for link in links(path):
        beside = (ROOT / "lessons" / link).exists() and "/" not in link
        assert beside or link.startswith("../"), link
        assert not re.match(r"\.\./(lessons|solutions)/", link), "leaves the copies"


# Where to go from a lesson: the last cell, made by the build --------------------------


@pytest.mark.parametrize("kind", ["lessons", "solutions"])
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_lesson_ends_with_links_to_the_next_the_glossary_and_its_demos(lesson, kind):
    cells = nbformat.read(ROOT / kind / f"{lesson.name}.ipynb", 4).cells
    assert [cell for cell in cells if TAG in cell.metadata.get("tags", [])] == [
        cells[-1]
    ]
    after = [other for other in LESSONS if other.name > lesson.name][:1]
    expected = [f"{next.name}.ipynb" for next in after] + [GLOSSARY]
    expected += [f"../demos/{demo}" for demo in demos_of_lesson(lesson, ROOT)]
    assert [target for _, _, target in LINK.findall(cells[-1].source)] == expected
    assert all(other.head["question"] in cells[-1].source for other in after)


def test_each_demo_is_linked_from_a_lesson():
    linked = {demo for lesson in LESSONS for demo in demos_of_lesson(lesson, ROOT)}
    there = {path.relative_to(ROOT / "demos") for path in ROOT.glob("demos/*/*.py")}
    assert {path.as_posix() for path in there} - linked == set()


def test_demos_are_found_however_a_lesson_names_them(tmp_path):
    for name in ("gil/a", "gil/b", "gil/c", "gil/e", "gil/f", "gil/h"):
        path = tmp_path / f"demos/{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    text = """# %%
from demos.gil import a, b
from parallel_by_hand.gil.h import g
from parallel_by_hand.gil.d import i
run_demo("gil/c.py")

# %% [markdown]
# `python demos/gil/e.py --help`, then demos/gil/a.py, gone/x.py

# %% [markdown] tags=["instructor"]
# demos/gil/f.py
"""
    found = demos_of_lesson(parse_lesson("90_tiny", text), tmp_path)
    assert found == [f"gil/{name}.py" for name in "abhce"]


def test_links_follow_the_lessons_and_keep_what_has_run(tmp_path):
    tiny.write_sources(tmp_path)
    room, solution = tmp_path / "lessons/source", tiny.products(tmp_path)["solution"]
    with (room / tiny.NAME / "lesson.py").open("a") as source:
        source.write("\n# %%\nopen('ran', 'a').write('x')\n")
    assert tiny.run_build(tmp_path) == 0
    assert "Next lesson" not in solution.read_text(), "it is the last one"
    assert "This is the last lesson." in solution.read_text()

    (room / "91_more").mkdir()
    head = tiny.SOURCE.replace("90", "91").replace("smallest", "second")
    (room / "91_more/lesson.py").write_text(head)
    assert tiny.run_build(tmp_path, "--check", "90") == 1
    assert tiny.run_build(tmp_path, "90") == 0
    last = nbformat.read(solution, 4).cells[-1].source
    assert "[91 Tiny](91_more.ipynb). *What is the second lesson?*" in last
    assert "last lesson" not in last
    assert (tmp_path / "solutions/ran").read_text() == "x", "a link needs no execution"
