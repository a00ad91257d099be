"""Every exercise of every lesson, and how it is tried.

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
from typing import NamedTuple
from unittest import mock

from lessons.source.sample_answers import Right, Wrong, declared
from sidebyside.course.lesson_format import Lesson, lessons, rooms, solved
from sidebyside.exercises import judge
from sidebyside.exercises.findings import Finding
from sidebyside.exercises.judge import Exercise, examine, find_exercise

SECONDS_TO_END = 240  # others get more than a learner: the machine may be busy,
TIMES_SLOWER = 8  # but not more than so many times slower


class Case(NamedTuple):
    """An exercise: its check, its text and the wrong answers it must recognise."""

    id: str
    exercise: Exercise
    lesson: Lesson
    wrong: list[Wrong]
    right: list[Right]


def all_cases() -> list[Case]:
    """The exercises of all lessons that have a source."""
    cases = []
    for room, lesson in zip(rooms(), lessons(), strict=True):
        for id, answers in declared(room, lesson.exercises).items():
            wrong = [answer for answer in answers if isinstance(answer, Wrong)]
            right = [answer for answer in answers if answer not in wrong]
            cases.append(Case(id, find_exercise(id), lesson, wrong, right))
    return cases


def tried(case: Case, given: tuple, hangs_for: float = 0) -> Finding:
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
