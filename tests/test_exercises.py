"""Each exercise: its check accepts the solution and explains every mistake."""

import ast
import re
from threading import Lock
from types import FunctionType

import pytest

from lessons.source.sample_answers import DECLARED
from sidebyside.course.lesson_format import lessons, rooms, solved, stub
from sidebyside.course.record import ROOT
from sidebyside.exercises.findings import HUNG, NOT_STARTED, PASSED
from tests.exercise_rules import all_cases, answers, tried

ALL = all_cases()
CASES = [pytest.param(case, id=case.id) for case in ALL]
MISTAKES = [
    pytest.param(case, wrong, id=f"{case.id}-{wrong.name}")
    for case in ALL
    for wrong in case.wrong
]
UNUSUAL = [
    pytest.param(case, right, id=f"{case.id}-{right.name}")
    for case in ALL
    for right in case.right
]
SECONDS_TO_HANG = 3  # a wrong answer that must hang need not hang for longer
CLAUSE = re.compile(  # "think about the bound is large": neither noun nor question
    r"think about (?!wh|how|is |was |do|for |in |by |with |from |on )"
    r"(?:(?!that |wh)[\w`]+ ){1,9}(is|are|was|has|can) "
)


@pytest.mark.parametrize("case", CASES)
def test_an_exercise_is_complete(case):
    """Its check is found; the lesson's rules see to its text, hints, stub and why."""
    assert 6 <= len(case.wrong) <= 12 and 2 <= len(case.right) <= 3
    assert all(wrong.note for wrong in case.wrong)


@pytest.mark.parametrize("case", CASES)
def test_the_stub_is_not_started(case):
    finding = tried(case, answers(case.lesson, case.id, stub))
    assert finding.state == NOT_STARTED, finding.text(case.id)


@pytest.mark.parametrize("case", CASES)
def test_the_solution_passes_wherever_its_notebook_is_run(case):
    """The usual run compares what it prints with what is stored."""
    checks = [cell for cell in case.lesson.code_cells if case.id in cell.checked]
    assert not any("nbval-ignore-output" in cell.tags for cell in checks)
    stored = (ROOT / f"solutions/{case.lesson.name}.ipynb").read_text("utf-8")
    assert f'"{case.id}: PASSED\\n"' in stored


@pytest.mark.everything
@pytest.mark.parametrize("case", CASES)
def test_the_solution_passes(case):
    """Though it may use a lock of the notebook, which ranks could not share."""
    given = answers(case.lesson, case.id, solved)
    for answer in () if case.exercise.in_ranks else given:
        if isinstance(answer, FunctionType):
            answer.lock = Lock()
    finding = tried(case, given)
    assert finding.state == PASSED, finding.text(case.id)


@pytest.mark.everything
@pytest.mark.parametrize(("case", "right"), UNUSUAL)
def test_an_unusual_right_answer_passes(case, right):
    finding = tried(case, right.as_tuple)
    assert finding.state == PASSED, finding.text(case.id)


@pytest.mark.everything
@pytest.mark.parametrize(("case", "wrong"), MISTAKES)
def test_a_mistake_is_explained(case, wrong):
    """It gets its state, or one of them, and its advice."""
    states = wrong.state.split(" or ")
    # on a busy machine it may not have come to the line where it hangs
    limits = (SECONDS_TO_HANG, 8 * SECONDS_TO_HANG) if HUNG in states else (0,)
    for seconds in limits:
        finding = tried(case, wrong.as_tuple, seconds)
        said = finding.text(case.id)
        if finding.state in states and re.search(wrong.advice, " ".join(said.split())):
            break
    else:
        pytest.fail(f"not {wrong.state} with {wrong.advice!r}:\n{said}")
    assert not CLAUSE.search(said)


def test_every_check_and_every_wrong_answer_belongs_to_an_exercise():
    tiny = {"90-double"}  # if this process has built the tiny course
    assert DECLARED.keys() - tiny == {case.id for case in ALL}
    for room, lesson in zip(rooms(), lessons(), strict=True):
        tree = ast.parse((room / "checks.py").read_text(encoding="utf-8"))
        checks = {
            node.args[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "exercise"
        }
        assert checks == set(lesson.exercises)
