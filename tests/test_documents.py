"""What the README and the other documents name is there, and nothing is left out."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import nbformat
import pytest

from lessons.source.instructor_page import FENCE
from sidebyside.__main__ import main
from sidebyside.course.lesson_format import NUMBER, lessons
from sidebyside.course.record import ROOT
from tests.lesson_rules import LINK

README = (ROOT / "README.md").read_text(encoding="utf-8")
LESSONS = lessons()
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", ".github/*.md", "resources/**/*.md")
    for path in ROOT.glob(pattern)
    if path.parent.name != ".ipynb_checkpoints"  # of a page opened in JupyterLab
)


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", DOCUMENTS, ids=short)
def test_images_are_described(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for mark, label, target in LINK.findall(text):
        assert not mark or len(label) >= 10, f"describe the image {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=short)
def test_folders_and_files_in_code_are_there(path):
    text = path.read_text(encoding="utf-8")
    named = re.findall(
        r"(?<![\w/.])(?:demos|lessons|resources|tests|solutions)/[\w./-]+\.\w+", text
    )
    missing = {
        name for name in named if "NN" not in name and not (ROOT / name).exists()
    }
    assert not missing


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_readme_lists_the_lesson_with_its_question(lesson):
    assert f"lessons/{lesson.name}.ipynb" in README
    assert lesson.head["question"] in README


def test_the_readme_starts_and_tests_the_course_with_one_line_each():
    lines = README.splitlines()
    starts = [line for line in lines if "pip install -r requirements.txt &&" in line]
    assert any(line.endswith("&& .venv/bin/sidebyside") for line in starts)
    assert any(line.endswith(r"&& .venv\Scripts\sidebyside") for line in starts)
    assert ".venv/bin/python -m pytest" in lines


def test_the_command_that_the_readme_names_is_installed():
    (command,) = entry_points(group="console_scripts", name="sidebyside")
    assert command.load() is main


def test_every_lesson_has_an_instructor_page():
    for lesson in LESSONS:
        assert (ROOT / f"resources/workshop/{lesson.name}.md").exists()


# The glossary: no word before it is introduced ----------------------------------------


def glossary() -> dict[str, str]:
    """The number of its lesson for each word."""
    text = (ROOT / "resources/workshop/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| (.+?) \| .+ \| ({NUMBER}) \|$", text, re.MULTILINE)
    return {word: number for words, number in rows for word in words.split(", ")}


def paragraphs() -> list[tuple[str, str]]:
    """(number of the lesson, text) of what a learner reads, in order.

    Without headings, code, the first cell, which says what the lesson is about, and
    the last one, which says what the next is about.
    """
    found = []
    for lesson in LESSONS:
        notebook = nbformat.read(ROOT / f"lessons/{lesson.name}.ipynb", as_version=4)
        texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
        for text in texts[1:-1]:
            text = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", "", text, flags=re.DOTALL)
            text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
            found += [(lesson.number, " ".join(p.split())) for p in text.split("\n\n")]
    return found


def introductions(word: str, texts: list[tuple[str, str]]) -> list[tuple[str, bool]]:
    """(lesson, is it in bold or italics?) for each paragraph that uses the word."""
    case = 0 if word.isupper() else re.IGNORECASE
    use = re.compile(rf"\b{re.escape(word)}(s|es|ren)?\b", case)
    emphasis = re.compile(r"(?<![\w*])(\*{1,2})(?=\S)([^*]+?)(?<=\S)\1(?![\w*])")
    return [
        (number, any(use.search(mark[2]) for mark in emphasis.finditer(text)))
        for number, text in texts
        if use.search(text)
    ]


EVERYDAY = {"queue": "people in a shop, before lesson 02 queues messages"}


@pytest.mark.parametrize("word", glossary())
def test_a_word_is_introduced_where_it_is_first_used(word):
    uses = introductions(word, paragraphs())
    assert (glossary()[word], True) in uses, "not introduced in the glossary's lesson"
    first, introduced = uses[0]
    assert introduced or word in EVERYDAY, f"used in {first} before it is introduced"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_minutes_of_the_sections_add_up(lesson):
    headings = re.findall(
        r"^## (?!Exercises)[^\n]*: (\d+) minutes",
        "\n".join(cell.source for cell in lesson.cells),
        re.MULTILINE,
    )
    assert sum(map(int, headings)) == int(lesson.head["minutes"])


def test_requirements_are_pinned_and_say_what_for():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines.pop() == "-e ."
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\d.]+ +# \S.*", line), line


def test_licences_are_there():
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "MIT" in licence and "Creative Commons Attribution 4.0" in licence
    for data in ROOT.glob("resources/data/*"):
        if data.suffix not in (".md", ".txt"):
            notes = [p.read_text() for p in data.parent.glob("*.md")]
            notes += [p.read_text() for p in data.parent.glob("*.txt")]
            assert any(data.name in note for note in notes), f"whose is {data.name}?"
