"""What must hold for every exercise of every lesson, as functions that can be tested.

Each function returns a list of complaints, empty when all is well.

An exercise is tried as the lesson has it. First the cells above it are read: their
imports, functions, classes and constants are defined, and nothing else is run, for
running whole lessons would take minutes. (Of the exercises above, the solutions are
defined.) Then its own cell is run, as the lesson or as the solution shows it, without
the statements that need what a cell above computes. What the lesson's
`check(id, ...)` names is handed to the check. So the code of an exercise may use what
is defined above it; data that a cell computes it gets as an argument.
"""

import ast
import contextlib
import linecache
import os
import re
from threading import Lock
from types import FunctionType
from typing import NamedTuple
from unittest import mock

from lessons.source.sample_answers import Right, Wrong, declared
from sidebyside.course.lesson_format import Lesson, lessons, rooms, solved, stub
from sidebyside.exercises import judge
from sidebyside.exercises.findings import HUNG, NOT_STARTED, PASSED, Finding
from sidebyside.exercises.judge import Exercise, examine, find_exercise

SECONDS_TO_HANG = 3  # a wrong answer that must hang need not hang for longer
SECONDS_TO_END = 240  # others get more than a learner: the machine may be busy,
TIMES_SLOWER = 8  # but not more than so many times slower
CLAUSE = re.compile(  # "think about the bound is large": neither noun nor question
    r"think about (?!wh|how|is |was |do|for |in |by |with |from |on )"
    r"(?:(?!that |wh)[\w`]+ ){1,9}(is|are|was|has|can) "
)
WRONG, RIGHT = range(6, 13), range(2, 4)  # so many answers to each exercise


class Case(NamedTuple):
    """An exercise: its check, its text and the wrong answers it must recognise."""

    id: str
    exercise: Exercise | None
    lesson: Lesson
    wrong: list[Wrong]
    right: list[Right] = ()


def all_cases() -> list[Case]:
    """The exercises of all lessons that have a source."""
    cases = []
    for room, lesson in zip(rooms(), lessons(), strict=True):
        for id, answers in declared(room, lesson.exercises).items():
            wrong = [answer for answer in answers if isinstance(answer, Wrong)]
            right = [answer for answer in answers if answer not in wrong]
            cases.append(Case(id, find_exercise(id), lesson, wrong, right))
    return cases


def complaints(case: Case) -> list[str]:
    """Everything that is wrong with an exercise."""
    found = text_complaints(case)
    if case.exercise is not None:
        found += stub_complaints(case) + solution_complaints(case)
        found += [c for wrong in case.wrong for c in wrong_complaints(case, wrong)]
        found += [c for right in case.right for c in right_complaints(case, right)]
    return found


def text_complaints(case: Case) -> list[str]:
    """It has a check, a text, three hints, a why, wrong and right answers."""
    found = []
    if case.exercise is None:
        found.append(f"{case.id} has no check")
    if not case.lesson.marked("exercise", case.id):
        found.append(f"{case.id} has no text marked <!-- exercise: {case.id} -->")
    if not case.lesson.marked("why", case.id):
        found.append(f"{case.id} has no text marked <!-- why: {case.id} -->")
    hints = case.lesson.hints(case.id)
    if len(hints) != 3 or not all(hint.text for hint in hints):
        found.append(f"{case.id} has {len(hints)} hints with a text, not 3")
    for kind, given, allowed in (
        ("wrong", case.wrong, WRONG),
        ("right", case.right, RIGHT),
    ):
        if len(given) not in allowed:
            limits = f"{allowed[0]} to {allowed[-1]}"
            found.append(f"{case.id} has {len(given)} {kind} answers, not {limits}")
    found += [f"{w.name} of {case.id} has no note" for w in case.wrong if not w.note]
    return found


def stub_complaints(case: Case) -> list[str]:
    """What the lesson shows is NOT STARTED."""
    if case.exercise is None:
        return [f"{case.id} has no check"]
    finding = _examined(case, stub)
    if finding.state == NOT_STARTED:
        return []
    return [f"the stub is not {NOT_STARTED}:\n{finding.text(case.id)}"]


def solution_complaints(case: Case) -> list[str]:
    """The solution is PASSED, also if it uses a lock of the notebook.

    Ranks could not share one.
    """
    if case.exercise is None:
        return [f"{case.id} has no check"]
    given = answers(case.lesson, case.id, solved)
    for answer in () if case.exercise.in_ranks else given:
        if isinstance(answer, FunctionType):
            answer.lock = Lock()
    finding = _tried(case, given)
    if finding.state == PASSED:
        return []
    return [f"the solution is not {PASSED}:\n{finding.text(case.id)}"]


def right_complaints(case: Case, right: Right) -> list[str]:
    """An unusual right answer is PASSED."""
    finding = _tried(case, right.as_tuple)
    if finding.state == PASSED:
        return []
    return [f"{right.name} is not {PASSED}:\n{finding.text(case.id)}"]


def wrong_complaints(case: Case, wrong: Wrong) -> list[str]:
    """A wrong answer gets its state, or one of them, and its advice."""
    if HUNG not in wrong.state.split(" or "):
        return _misjudged(case, wrong, _tried(case, wrong.as_tuple))
    found = _misjudged(case, wrong, _tried(case, wrong.as_tuple, SECONDS_TO_HANG))
    if found:  # on a busy machine it may not have come to the line where it hangs
        again = _tried(case, wrong.as_tuple, 8 * SECONDS_TO_HANG)
        found = _misjudged(case, wrong, again)
    return found


def _misjudged(case: Case, wrong: Wrong, finding: Finding) -> list[str]:
    states, said = wrong.state.split(" or "), finding.text(case.id)
    found = []
    if finding.state == PASSED or finding.state not in states:
        found.append(f"{wrong.name} is not {wrong.state}:\n{said}")
    if CLAUSE.search(said):
        found.append(f"{wrong.name} is told to think about a sentence:\n{said}")
    if not re.search(wrong.advice, " ".join(said.split())):
        found.append(f"{wrong.name} is not told {wrong.advice!r}:\n{said}")
    return found


def _examined(case: Case, version) -> Finding:
    return _tried(case, answers(case.lesson, case.id, version))


def _tried(case: Case, given: tuple, hangs_for: float = 0) -> Finding:
    """What the check finds; only an answer that must hang meets a limit soon."""
    patience = {"SIDEBYSIDE_PATIENCE": str(2 * hangs_for or SECONDS_TO_END / 4)}
    usual = min(SECONDS_TO_END, TIMES_SLOWER * case.exercise.seconds)
    with (
        mock.patch.dict(os.environ, patience),
        mock.patch.object(judge, "FOR_RANKS", SECONDS_TO_END),
    ):
        return examine(case.exercise, given, hangs_for or usual)


def answers(lesson: Lesson, id: str, version) -> tuple:
    """What the lesson's `check` call hands over, with the exercise in this version."""
    names = {"__name__": "__main__"}  # as in a notebook
    for cell in lesson.cells:
        if cell.exercise == id:
            break
        if cell.kind == "code":
            tree = ast.parse(solved(cell.source))
            _run(list(filter(_defines, tree.body)), names, lesson.name)
    code, file = version(lesson.code(id)), f"<{id}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    _run(ast.parse(code).body, names, file)
    return tuple(eval(argument, names) for argument in _arguments_of_check(lesson, id))


def _defines(statement: ast.stmt) -> bool:
    """Imports, functions, classes and constants such as `STEPS = 10 * SIZE`."""
    if isinstance(
        statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    ):
        return True
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or not statement.value:
        return False
    work = ast.Call | ast.Attribute | ast.Subscript | ast.Await
    return not any(isinstance(part, work) for part in ast.walk(statement.value))


def _run(statements: list[ast.stmt], names: dict, file: str) -> None:
    """Run them one by one, but for those that use what has not been computed."""
    for statement in statements:
        with contextlib.suppress(NameError):
            exec(compile(ast.Module([statement], []), file, "exec"), names)


def _arguments_of_check(lesson: Lesson, id: str) -> list[str]:
    for cell in lesson.cells:
        for node in ast.walk(ast.parse(cell.source)) if cell.kind == "code" else ():
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "check"
                and getattr(node.args[0], "value", None) == id
            ):
                return [ast.unparse(argument) for argument in node.args[1:]]
    raise AssertionError(f'no cell of {lesson.name} says check("{id}", ...)')
