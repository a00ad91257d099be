"""The two notebooks of a lesson: exercises open for learners, and solved."""

import hashlib
import re
from collections.abc import Callable

import nbformat
from nbformat import NotebookNode, v4

from sidebyside.course.lesson_format import Cell, Lesson, solved, stub


class BuildError(Exception):
    """A lesson that cannot be built; the message is for its author."""


def open_notebook(lesson: Lesson) -> NotebookNode:
    """What learners open: no solution, no text for the instructor, no output."""
    for cell in lesson.code_cells:
        if cell.exercise and stub(cell.source) == solved(cell.source):
            raise BuildError(f"an exercise without a solution:\n\n{cell.source}")
    return _notebook(lesson, {"instructor", "why"}, stub)


def solved_notebook(lesson: Lesson) -> NotebookNode:
    """The same with solutions and why they work; not executed yet."""
    return _notebook(lesson, {"instructor"}, solved)


def instructor_notebook(lesson: Lesson) -> NotebookNode:
    """What learners open, but with the solutions, still between their markers."""
    return _notebook(lesson, {"instructor", "why"}, lambda code: code)


def code_cells(nb: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def to_text(nb: NotebookNode) -> str:
    return nbformat.writes(nb, version=4) + "\n"


def _notebook(
    lesson: Lesson, leave_out: set[str], version: Callable[[str], str]
) -> NotebookNode:
    if missing := {"title", "question", "needs", "minutes"} - set(lesson.head):
        raise BuildError(f"the header does not say: {', '.join(sorted(missing))}")
    seen: dict[str, int] = {}
    reading = lesson.reading_minutes
    cells = [
        _notebook_cell(cell, version, seen, reading)
        for cell in lesson.cells
        if not leave_out & set(cell.tags)
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python"}
    metadata = {
        "kernelspec": kernel | {"name": "python3"},
        "language_info": {"name": "python"},
        "sidebyside": lesson.head,
    }
    return v4.new_notebook(cells=cells, metadata=metadata)


def _notebook_cell(
    cell: Cell, version: Callable[[str], str], seen: dict[str, int], reading: int
) -> NotebookNode:
    """The cell with an id made from its content, so that ids stay."""
    settings = {
        "tags": list(cell.tags), "exercise": cell.exercise, "figure": cell.figure
    }  # fmt: skip
    metadata = {key: value for key, value in settings.items() if value}
    if cell.kind == "code":
        new = v4.new_code_cell(version(cell.source), metadata=metadata)
    else:
        text = cell.text.replace("{reading}", f"{reading}")
        new = v4.new_markdown_cell(text, metadata=metadata | dict(cell.marks))
    if re.search(r"### *(BEGIN|END) *SOLUTION", solved(new.source), re.IGNORECASE):
        raise BuildError(f"a solution is not opened or not closed:\n\n{new.source}")
    digest = hashlib.sha256((new.cell_type + new.source).encode()).hexdigest()[:12]
    seen[digest] = count = seen.get(digest, 0) + 1
    new.id = digest if count == 1 else f"{digest}-{count}"
    return new
