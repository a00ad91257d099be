"""Every exercise of every lesson: its check accepts the solution and explains mistakes.

The rules are in exercise_rules.py. Here they are applied to all lessons, and to
planted exercises with a fault each, to show that no fault gets through.
"""

import ast
import sys
from pathlib import Path
from threading import Event

import cloudpickle
import pytest

from lessons.source.sample_answers import DECLARED, Right, Wrong
from sidebyside.course.lesson_format import lessons, parse_lesson, rooms
from sidebyside.course.record import ROOT
from sidebyside.exercises.expectations import Expect
from sidebyside.exercises.judge import Exercise
from tests.exercise_rules import (
    Case,
    all_cases,
    complaints,
    right_complaints,
    solution_complaints,
    stub_complaints,
    text_complaints,
    wrong_complaints,
)

CASES = [pytest.param(case, id=case.id) for case in all_cases()]
STRANGERS = set(DECLARED) - {case.values[0].id for case in CASES}
MISTAKES = [
    pytest.param(case, wrong, id=f"{case.id}-{wrong.name}")
    for case in all_cases()
    for wrong in case.wrong
]
UNUSUAL = [
    pytest.param(case, right, id=f"{case.id}-{right.name}")
    for case in all_cases()
    for right in case.right
]


@pytest.mark.parametrize("case", CASES)
def test_an_exercise_is_complete(case):
    assert not text_complaints(case)


@pytest.mark.parametrize("case", CASES)
def test_the_stub_is_not_started(case):
    assert not stub_complaints(case)


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
    """Though it may use a lock of the notebook."""
    assert not solution_complaints(case)


@pytest.mark.everything
@pytest.mark.parametrize(("case", "wrong"), MISTAKES)
def test_a_mistake_is_explained(case, wrong):
    assert not wrong_complaints(case, wrong)


@pytest.mark.everything
@pytest.mark.parametrize(("case", "right"), UNUSUAL)
def test_an_unusual_right_answer_passes(case, right):
    assert not right_complaints(case, right)


def test_every_check_and_every_wrong_answer_belongs_to_an_exercise():
    assert not STRANGERS, f"answers without an exercise: {STRANGERS}"
    for room, lesson in zip(rooms(), lessons(), strict=True):
        strangers = _ids_of_checks(room / "checks.py") - set(lesson.exercises)
        assert not strangers, f"checks without an exercise: {strangers}"


def _ids_of_checks(path: Path) -> set[str]:
    tree = (
        ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([])
    )
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "exercise"
    }


# The rules bite: planted exercises, each with one fault -------------------------------

# As if they were defined in a notebook: the check's process need not import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

LESSON = '''# ---
# title: 99 Planted
# ---

# %%
LIMIT = 100

# %% [markdown]
# ## Exercise: largest
# <!-- exercise: 99-largest -->
# <details><summary>Hint 1: a question</summary>
#
# Where do you start?
# </details>
# <details><summary>Hint 2: an idea</summary>
#
# Start with the first.
# </details>
# <details><summary>Hint 3: almost the code</summary>
#
# A loop.
# </details>

# %% exercise="99-largest"
def largest(numbers):
    """The largest number."""
    ### BEGIN SOLUTION
    found = numbers[0]
    for number in numbers:
        if number > found and number < LIMIT:
            found = number
    return found
    ### END SOLUTION

# %%
check("99-largest", largest)

# %% [markdown] tags=["why"]
# <!-- why: 99-largest -->
# Every number was looked at.
'''


def _check(largest):
    for numbers in [3, 1, 2], [-2, -1], [5]:
        got = largest(list(numbers))
        think = "where your search starts, and which numbers it looks at"
        Expect(f"largest({numbers})")(got == max(numbers), got=got, think=think)


def _hang(numbers):
    Event().wait()  # one line on every Python; a loop is reported by its head or body


def _wrong(name, answer, advice, state="NOT YET") -> Wrong:
    return Wrong(name, answer, advice, state, note="What they think.")


WRONG = [
    _wrong("starts_at_zero", lambda numbers: max([0, *numbers]), "search starts"),
    _wrong("returns_nothing", lambda numbers: None, "came back None"),
    _wrong("takes_the_first", lambda numbers: numbers[0], "search starts"),
    _wrong("takes_the_last", lambda numbers: numbers[-1], "search starts"),
    _wrong("takes_the_smallest", min, "search starts"),
    _wrong("never_ends", _hang, "in _hang: Event", state="HUNG"),
]
RIGHT = [
    Right("the_library", max),
    Right("sorts", lambda numbers: sorted(numbers)[-1]),
]


def planted(check=_check, text=LESSON, wrong=WRONG, right=RIGHT) -> Case:
    lesson = parse_lesson("99_planted", text)
    exercise = Exercise("99-largest", check, 20, False)
    return Case("99-largest", exercise, lesson, wrong, right)


def test_a_good_exercise_gets_no_complaint():
    assert complaints(planted()) == []


def _accepts_everything(largest):
    pass


def test_a_bad_exercise_gets_a_complaint_for_each_of_its_faults():
    text = LESSON.replace("# Start with the first.\n", "").replace("why: 99", "why: 98")
    silent = Wrong("no_hang", min, "sort them first", "HUNG")
    found = "\n".join(complaints(planted(text=text, wrong=[silent], right=[])))
    for fault in (
        "hints with a text",
        "no text marked <!-- why",
        "1 wrong answers, not 6 to 12",
        "no_hang of 99-largest has no note",
        "no_hang is not HUNG",
        "no_hang is not told",
    ):
        assert fault in found
    found = "\n".join(complaints(planted(_accepts_everything)))
    assert "starts_at_zero is not NOT YET" in found
    assert "the stub is not NOT STARTED" in found
