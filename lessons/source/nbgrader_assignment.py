"""A lesson as an assignment that nbgrader grades, with tests for otter-grader.

The cells of an exercise become solution cells. The cell that checks it becomes a locked
test cell, worth one point, which raises unless the check says PASSED.
"""

from collections import Counter
from pathlib import Path
from textwrap import indent

from lessons.source.notebooks import code_cells, instructor_notebook, to_text
from sidebyside.course.lesson_format import YOUR_TURN, Lesson, checked_in
from sidebyside.exercises.findings import PASSED

SETTINGS = f'''\
"""nbgrader's settings for these assignments. Yours to change: only the first build
writes this file."""

import os

c = get_config()
c.CourseDirectory.course_id = "side_by_side"
c.ClearSolutions.code_stub = {{"python": {YOUR_TURN!r}}}
c.ExecutePreprocessor.timeout = 300  # seconds; a check of ranks may take minutes
# Records of checks: autograded/LEARNER/progress.json, apart from the grader's own.
os.environ["SIDEBYSIDE_PROGRESS"] = "../progress.json"
'''

OTTER_TEST = """\
from otter.test_files import test_case

from sidebyside import check

OK_FORMAT = False
name = "{id}"
points = 1


@test_case()
def test_passed({names}):
{graded}
"""


def assignment(lesson: Lesson) -> dict[Path, str]:
    """The text of each file of the assignment, by its path in the instructor's folder.

    source/NAME is for `nbgrader generate_assignment`, otter/NAME for `otter generate`.
    """
    nb, files, cells_of = instructor_notebook(lesson), {}, Counter()
    for cell in code_cells(nb):
        if id := cell.metadata.get("exercise"):
            cells_of[id] += 1
            answer = f"{id}-answer-{cells_of[id]}"
            cell.metadata["nbgrader"] = _role(answer, solution=True)
        for id in checked_in(cell.source):
            *above, call = cell.source.splitlines()
            names = call.removeprefix(f'check("{id}", ').removesuffix(")")
            graded = f"graded = {call}\n"
            graded += f'assert graded.state == "{PASSED}", graded.message'
            cell.source = "\n".join([*above, graded])
            cell.metadata["nbgrader"] = _role(id, grade=True, locked=True, points=1)
            cell.metadata["otter"] = {"tests": [id]}
            files[Path("otter", lesson.name, "tests", f"{id}.py")] = OTTER_TEST.format(
                id=id, names=names, graded=indent(graded, "    ")
            )
    notebook = Path("source", lesson.name, f"{lesson.name}.ipynb")
    return {notebook: to_text(nb)} | files


def _role(grade_id: str, **given: bool | int) -> dict[str, bool | int | str]:
    """What nbgrader is told of a cell, in the third version of its schema."""
    none = {"grade": False, "solution": False, "locked": False}
    return none | given | {"grade_id": grade_id, "schema_version": 3}
