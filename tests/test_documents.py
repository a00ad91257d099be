"""What documents and notebooks name and link is there, and nothing is left out."""

import re
import tomllib
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement

from lessons.source.instructor_page import FENCE, HEADING
from lessons.source.where_next import GLOSSARY, INDEX, TAG, demos_of_lesson
from sidebyside.__main__ import main
from sidebyside.course import finding
from sidebyside.course.lesson_format import anchor_of, lessons
from sidebyside.course.record import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LESSONS = lessons()
NOTEBOOKS = sorted([*ROOT.glob("lessons/*.ipynb"), *ROOT.glob("solutions/*.ipynb")])
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
ELSEWHERE = re.compile(r"https?://|mailto:|attachment:|data:")
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", ".github/*.md", "resources/**/*.md")
    for path in ROOT.glob(pattern)
    if path.parent.name != ".ipynb_checkpoints"  # of a page opened in JupyterLab
)


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def markdown_cells(path: Path) -> list[str]:
    cells = nbformat.read(path, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


@cache
def text_of(path: Path) -> str:
    """What is read: of a notebook its Markdown cells; without code."""
    if path.suffix == ".ipynb":
        return FENCE.sub("", "\n\n".join(markdown_cells(path)))
    return FENCE.sub("", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", DOCUMENTS + NOTEBOOKS, ids=short)
def test_images_are_described(path):
    for mark, label, target in LINK.findall(text_of(path)):
        assert not mark or len(label) >= 10, f"describe the image {target}"


def links(path: Path) -> list[str]:
    """Where its relative links lead, as they are written."""
    targets = [target for _, _, target in LINK.findall(text_of(path))]
    return [target for target in targets if not ELSEWHERE.match(target)]


def anchors(path: Path) -> set[str]:
    """What may stand after # in a link to this page.

    As JupyterLab makes it of a notebook's headings, and GitHub of a page's.
    """
    titles = [title.strip() for _, title in HEADING.findall(text_of(path))]
    if path.suffix == ".ipynb":
        return {anchor_of(title) for title in titles}
    titles = [title.lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS + NOTEBOOKS, ids=short)
def test_every_link_leads_somewhere(path):
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("path", NOTEBOOKS, ids=short)
def test_links_hold_in_a_folder_of_a_learners_own_copies(path):
    """Other notebooks are in the same folder, all else is reached from the top."""
    for link in links(path):
        page = ROOT / "lessons" / link.partition("#")[0]
        beside = page.exists() and "/" not in link
        assert beside or link.startswith("../"), link
        assert not re.match(r"\.\./(lessons|solutions)/", link), "leaves the copies"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_a_lesson_ends_with_links_to_the_next_to_words_answers_and_demos(lesson):
    """The build makes this cell."""
    cells = nbformat.read(ROOT / f"lessons/{lesson.name}.ipynb", 4).cells
    assert [TAG in cell.metadata.get("tags", []) for cell in cells].index(True) == (
        len(cells) - 1
    )
    after = [other for other in LESSONS if other.name > lesson.name][:1]
    expected = [f"{next.name}.ipynb" for next in after] + [GLOSSARY, INDEX]
    expected += [f"../demos/{demo}" for demo in demos_of_lesson(lesson, ROOT)]
    assert [target for _, _, target in LINK.findall(cells[-1].source)] == expected
    assert all(other.head["question"] in cells[-1].source for other in after)


def test_each_demo_is_linked_from_a_lesson():
    linked = {demo for lesson in LESSONS for demo in demos_of_lesson(lesson, ROOT)}
    there = {path.relative_to(ROOT / "demos") for path in ROOT.glob("demos/*/*.py")}
    assert {path.as_posix() for path in there} == linked


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


# The glossary: no word before it is introduced ----------------------------------------

# Used in an everyday sense, or in passing, before the lesson that introduces it.
EVERYDAY = """
activations, autograd, buffer, clip, convolution, drift, dropped, event, in place,
language model, mesh, node, operation, queue, root, rung, score, stable,
tensor parallel, time limit, torchtitan, turn, unit, value, version, ZeRO, ZeRO-3
"""
# Never introduced: the glossary alone explains these, and leads to where they are used.
PASSING = """
Adam, AdamW, augmentation, batch norm, cluster, cross entropy, DataLoader, DDP, device,
DeviceMesh, DiLoCo, dropout, forkserver, fsync, FSDP2, GELU, gloo, host, idle share,
InfiniBand, label, layer, layer norm, loopback, LSTM, median, momentum, MPI, NCCL,
network card, neuron, no_sync, NVLink, optimiser, parameter, port, position,
process id, ReLU, sampler, scheduler, set_epoch, slot, Slurm, softmax, spawn,
SyncBatchNorm, tensor, torchrun, vocabulary, world size
"""
EVERYDAY, PASSING = (re.split(r",\s", text.strip()) for text in (EVERYDAY, PASSING))


@cache
def glossary() -> dict[str, str]:
    """Where each word is introduced: "03_the_gil.ipynb#The-lock"."""
    rows = finding.rows(finding.GLOSSARY)
    return {row.name: row.link.removeprefix("../../lessons/") for row in rows}


@cache
def paragraphs() -> list[tuple[str, str]]:
    """(lesson and heading, text) of what a learner reads, in order.

    Without headings, fences, the first cell, which says what the lesson is about, and
    the last one, which says what the next is about.
    """
    found = []
    for lesson in LESSONS:
        for text in markdown_cells(ROOT / f"lessons/{lesson.name}.ipynb")[1:-1]:
            text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
            for part in text.split("\n\n"):
                if title := HEADING.match(part.strip()):
                    heading = anchor_of(title[2])
                else:
                    place = f"{lesson.name}.ipynb#{heading}"
                    found.append((place, " ".join(part.split())))
    return found


def introductions(word: str, texts: list[tuple[str, str]]) -> list[tuple[str, bool]]:
    """(place, is it in bold or italics?) for each paragraph that uses the word."""
    case = 0 if re.search(r"\w[A-Z]", word) else re.IGNORECASE
    use = re.compile(rf"\b{re.escape(word)}(s|es|ren)?\b", case)
    emphasis = re.compile(r"(?<![\w*])(\*{1,2})(?=\S)([^*]+?)(?<=\S)\1(?![\w*])")
    return [
        (place, any(use.search(mark[2]) for mark in emphasis.finditer(text)))
        for place, text in texts
        if use.search(text)
    ]


@cache
def prose() -> list[tuple[str, str]]:
    return [(place, re.sub(r"`[^`]*`", "", text)) for place, text in paragraphs()]


@pytest.mark.parametrize("word", [word for word in glossary() if word not in PASSING])
def test_a_word_is_introduced_where_it_is_first_used(word):
    uses = introductions(word, prose())
    assert (glossary()[word], True) in uses, "not introduced where the glossary says"
    first, introduced = uses[0]
    assert introduced or word in EVERYDAY, f"used in {first} before it is introduced"


def test_other_words_are_used_where_the_glossary_says():
    for word in PASSING:
        texts = [text for place, text in paragraphs() if place == glossary()[word]]
        assert any(word.lower() in text.lower() for text in texts), word


def test_the_glossary_has_each_word_that_a_lesson_prints_in_bold():
    """A bold phrase of up to three words is a term, but for a few."""
    emphasised = {"backward two", "exactly", "inside", "It always ends", "K = 12"}
    emphasised |= {"14 slots", "on each machine", "The scorecard"}
    bold = re.compile(r"(?<![\w*])\*\*(?=\S)([^*.:$]+)(?<=\S)\*\*(?![\w*])")
    terms = {term for _, text in prose() for term in bold.findall(text)} - emphasised
    there = {word.lower() for word in glossary()}
    for term in (term.lower() for term in terms if len(term.split()) <= 3):
        assert {term, term.removesuffix("s"), term.removesuffix("es")} & there, term


def test_the_glossary_has_the_words_from_earlier_lessons_that_lessons_list():
    texts = [cell.text for lesson in LESSONS for cell in lesson.cells]
    title = "## Words from earlier lessons"
    tables = [text.partition("|---")[2] for text in texts if text.startswith(title)]
    cells = re.findall(r"^\| ([^|`$]+) \|", "\n".join(tables), re.MULTILINE)
    terms = {term for cell in cells for term in cell.split(", ")} - {"F2", "B2"}
    assert len(tables) == 3 and len(terms) > 15
    for term in terms:
        assert any(term in word for word in glossary()), term


@pytest.mark.parametrize("page", [finding.GLOSSARY, finding.INDEX], ids=short)
def test_the_tables_of_the_glossary_and_the_index_are_alphabetical(page):
    for table in page.read_text(encoding="utf-8").split("|---|\n")[1:]:
        lines = table.partition("\n\n")[0].strip().splitlines()
        rows = [finding.ROW.match(line) for line in lines]
        names = [row[1].strip("`").casefold() for row in rows]
        assert names == sorted(set(names))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_minutes_of_the_sections_add_up(lesson):
    headings = re.findall(
        r"^## (?!Exercises)[^\n]*: (\d+) minutes",
        "\n".join(cell.source for cell in lesson.cells),
        re.MULTILINE,
    )
    assert sum(map(int, headings)) == int(lesson.head["minutes"])


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_requirements_are_pinned_in_the_ranges_of_pyproject_and_say_what_for():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert lines.pop() == "-e ."
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\d.]+ +# \S.*", line), line
    pins = dict(line.split()[0].split("==") for line in lines)
    needs = [Requirement(need) for need in PROJECT["dependencies"]]
    assert [need.name for need in needs] == list(pins)[: len(needs)]
    assert all(pins[need.name] in need.specifier for need in needs)


def test_the_readme_and_pyproject_name_one_address_of_the_course():
    course = PROJECT["urls"]["Repository"].removeprefix("https://github.com/")
    hosts = r"(?:github\.com|/github|/gh)/([\w-]+/[\w-]+)"
    assert set(re.findall(hosts, README + str(PROJECT["urls"]))) == {course}


def test_licences_are_there():
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "MIT" in licence and "Creative Commons Attribution 4.0" in licence
    for data in ROOT.glob("resources/data/*"):
        if data.suffix not in (".md", ".txt"):
            notes = [p.read_text() for p in data.parent.glob("*.md")]
            notes += [p.read_text() for p in data.parent.glob("*.txt")]
            assert any(data.name in note for note in notes), f"whose is {data.name}?"
