"""One source makes a lesson, a solution and an instructor page, always the same."""

import re
from dataclasses import replace

import nbformat
import pytest

from lessons.source import build, execution
from lessons.source.notebooks import code_cells
from sidebyside.course.record import ROOT
from sidebyside.measure import machines
from tests import tiny_course as tiny

LEAVES_A_FILE = tiny.SOURCE + "\n# %%\nopen('ran', 'a').write('x')\n"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    tiny.write_sources(root)
    assert tiny.run_build(root) == 0
    return root


@pytest.fixture
def unbuilt(tmp_path):
    tiny.write_sources(tmp_path)
    return tmp_path


def sources(path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, 4).cells]


def test_the_lesson_is_open(course):
    path = tiny.products(course)["lesson"]
    text, cells = path.read_text(), nbformat.read(path, 4).cells
    assert 'raise NotImplementedError("your turn")' in "\n".join(sources(path))
    assert "answer = ...\nanswer" in sources(path)
    for hidden in ("x + x", "answer = 6", "circle", "doubles it", "SOLUTION", "<!--"):
        assert hidden not in text
    assert not any(cell.get("outputs") for cell in cells)


def test_the_solution_is_solved_and_executed(course):
    path = tiny.products(course)["solution"]
    nb, text = nbformat.read(path, 4), path.read_text()
    assert "return x + x" in "\n".join(sources(path))
    assert "answer = 6\nanswer" in sources(path), "the placeholder goes"
    assert "Adding a number to itself doubles it." in sources(path)
    for hidden in ("circle", "SOLUTION", "<!--", "your turn"):
        assert hidden not in text
    counts = [cell.execution_count for cell in code_cells(nb)]
    assert counts == list(range(1, len(counts) + 1))


def test_the_instructor_page_has_notes_hints_and_wrong_answers(course):
    page = tiny.products(course)["page"].read_text()
    parts = ["## 90. The smallest lesson", "**Minutes: 2**", "Draw a tiny circle"]
    parts += ["## The figure: 1 minute", "Draw a tiny square"]
    parts += ["## Exercise 1: double", "twice 3", "adds two", "2 + 2", "squares"]
    parts += ["<details><summary>1 more", "constant", "</details>"]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "x + x" not in page


def test_notebooks_are_valid_and_hold_nothing_of_this_machine(course):
    for kind in ("lesson", "solution"):
        path = tiny.products(course)[kind]
        nb = nbformat.read(path, 4)
        nbformat.validate(nb)
        ids = [cell.id for cell in nb.cells]
        assert len(set(ids)) == len(ids)
        assert set(nb.metadata) == {"kernelspec", "language_info", "sidebyside"}
        assert nb.metadata.language_info == {"name": "python"}
        assert str(course) not in path.read_text()
        assert str(ROOT) not in path.read_text()


def test_building_twice_gives_the_same_bytes(course):
    before = [path.read_bytes() for path in tiny.products(course).values()]
    assert tiny.run_build(course, "--execute") == 0
    assert [path.read_bytes() for path in tiny.products(course).values()] == before
    assert tiny.run_build(course, "--check") == 0


def test_outputs_are_kept_until_code_changes(unbuilt):
    source = unbuilt / f"lessons/source/{tiny.NAME}/lesson.py"
    ran = unbuilt / "solutions/ran"
    for text, runs in [
        (LEAVES_A_FILE, 1),
        (LEAVES_A_FILE.replace("one of everything", "a bit of everything"), 1),
        (LEAVES_A_FILE.replace("0.5]", "0.4]"), 2),
    ]:
        source.write_text(text)
        assert tiny.run_build(unbuilt) == 0
        assert tiny.run_build(unbuilt, "--check") == 0
        assert ran.read_text() == runs * "x"
    assert "0.4000" in tiny.products(unbuilt)["solution"].read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    ### END SOLUTION\n\n\n", "\n\n", "not opened or not closed"),
        ("answer = 6", "answer = 6 # ### end solution", "not opened or not closed"),
        ("    ### BEGIN SOLUTION\n    return x + x\n    ### END SOLUTION\n",
         "    return x + x\n", "an exercise without a solution"),
        ("1 / 0", "1 / 1", "this cell should raise and did not"),
        ("# minutes: 2\n", "", "the header does not say: minutes"),
        ("1 / 0", "import os; os._exit(1)", "a cell of the solution failed"),
        ("return x + x", "return x + nonsense", "nonsense"),
    ],
)  # fmt: skip
def test_a_source_that_cannot_be_right_is_refused(unbuilt, capsys, old, new, said):
    assert old in tiny.SOURCE
    tiny.write_sources(unbuilt, tiny.SOURCE.replace(old, new))
    assert tiny.run_build(unbuilt) == 1
    assert said in capsys.readouterr().err
    assert not any(path.exists() for path in tiny.products(unbuilt).values())


def test_check_says_in_one_line_what_is_wrong(course, tmp_path, capsys):
    tiny.write_sources(tmp_path)
    assert tiny.run_build(tmp_path, "--check") == 1
    assert capsys.readouterr().err.splitlines() == [
        "solutions/90_tiny.ipynb is missing",
        "lessons/90_tiny.ipynb is missing",
        "workshop/90_tiny.md is missing",
    ]
    for kind, path in tiny.products(course).items():
        copy = tiny.products(tmp_path)[kind]
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text().replace("double", "triple"))
    (tmp_path / "lessons/91_gone.ipynb").write_text("{}")
    solution = tiny.products(tmp_path)["solution"]
    unrun = re.sub(
        '"execution_count": 1,', '"execution_count": null,', solution.read_text()
    )
    solution.write_text(unrun)
    capsys.readouterr()
    assert tiny.run_build(tmp_path, "--check") == 1
    assert capsys.readouterr().err.splitlines() == [
        "lessons/91_gone.ipynb has no source",
        "solutions/90_tiny.ipynb has cells that were never run",
        "solutions/90_tiny.ipynb is stale: it is not what its source says",
        "lessons/90_tiny.ipynb is stale: it is not what its source says",
        "workshop/90_tiny.md is stale: it is not what its source says",
    ]


def test_a_busy_machine_executes_no_solution(unbuilt, capsys, monkeypatch):
    here = replace(machines.machine(), usable_cores=2, physical_cores=2)
    left = [2.0, 0.88, 1.9]
    monkeypatch.setattr(execution, "machine", lambda: here)
    monkeypatch.setattr(machines.Machine, "capacity", lambda *_, **__: left.pop(0))
    assert build.main(["--root", str(unbuilt)]) == 1
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines()), left) == ("", 1, [])
    assert "0.88 × the work of one" in said.err and "--busy" in said.err
    assert not any(path.exists() for path in tiny.products(unbuilt).values())
    assert build.main(["--root", str(unbuilt), "--busy"]) == 0


def test_an_unknown_lesson_is_one_line_and_status_2(course, capsys):
    assert tiny.run_build(course, "33") == 2
    assert capsys.readouterr().err == "build.py: no lesson 33; there are: 90\n"
