"""A lesson as an assignment: nbgrader's rules hold, and a point is a PASSED check."""

import re
from pathlib import Path

import nbformat
import pytest

from lessons.source.execution import execute
from lessons.source.nbgrader_assignment import assignment
from lessons.source.notebooks import code_cells, tags
from sidebyside.course.lesson_format import lesson_of, lessons, solved, stub
from tests import tiny_course as tiny

WITH_EXERCISES = [lesson for lesson in lessons() if lesson.exercises]
VERSIONS = {  # the stub, a wrong answer and the solution of one lesson's exercises
    "17a-stage": lambda code: solved(code).replace("<= budget", "< budget"),
    "17a-update": stub,
    "17a-clip": solved,
}


def notebook(files: dict[Path, str]) -> nbformat.NotebookNode:
    [text] = [text for path, text in files.items() if path.suffix == ".ipynb"]
    return nbformat.reads(text, as_version=4)


@pytest.mark.parametrize("lesson", WITH_EXERCISES, ids=lambda lesson: lesson.name)
def test_each_exercise_is_worth_a_point(lesson):
    files = assignment(lesson)
    cells = code_cells(notebook(files))
    told = [cell for cell in cells if "nbgrader" in cell.metadata]
    ids = [cell.metadata.nbgrader.grade_id for cell in told]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[\w-]+", id, re.ASCII) for id in ids)
    graded = [c.metadata.nbgrader for c in told if c.metadata.nbgrader.grade]
    assert [role.grade_id for role in graded] == lesson.exercises
    assert all(role.points == 1 and role.locked for role in graded)
    for cell in cells:
        solution = cell.metadata.get("nbgrader", {}).get("solution", False)
        assert solution == ("BEGIN SOLUTION" in cell.source), "else it is emptied"
        assert not re.search(r"^### END SOLUTION\s+\S", cell.source, re.MULTILINE), (
            "nbgrader's stub raises, and what follows in the cell would not run"
        )
    tests = {path.stem: text for path, text in files.items() if path.suffix == ".py"}
    assert list(tests) == lesson.exercises
    for text in tests.values():
        compile(text, "otter's test", "exec")


def test_a_second_build_keeps_the_instructors_settings(tmp_path):
    tiny.write_sources(tmp_path)
    folder = tmp_path / "grading"
    settings = folder / "nbgrader_config.py"
    assert tiny.run_build(tmp_path, "--nbgrader", str(folder)) == 0
    compile(settings.read_text(), settings, "exec")
    settings.write_text("# our own")
    assert tiny.run_build(tmp_path, "--nbgrader", str(folder)) == 0
    assert settings.read_text() == "# our own"
    assert (folder / f"source/{tiny.NAME}/{tiny.NAME}.ipynb").exists()
    assert not any(path.exists() for path in tiny.products(tmp_path).values())


@pytest.mark.everything
def test_a_test_cell_raises_unless_the_check_says_passed(tmp_path):
    nb = notebook(assignment(lesson_of("17a-stage")))
    for cell in code_cells(nb):
        version = VERSIONS.get(cell.metadata.get("exercise"), str)
        cell.source = version(cell.source)
        role = cell.metadata.get("nbgrader", {})
        if role.get("grade") and VERSIONS[role.grade_id] is not solved:
            cell.metadata["tags"] = [*tags(cell), "raises-exception"]
    execute(nb, tmp_path)  # and it complains of any other cell that raises
    errors = [
        output.evalue
        for cell in code_cells(nb)
        for output in cell.outputs
        if cell.metadata.get("nbgrader") and output.output_type == "error"
    ]
    assert [error.splitlines()[0] for error in errors] == [
        "17a-stage: NOT YET",
        "17a-update: NOT STARTED",
    ]
