"""What has become of a notebook's cells: some have not run, some are no Python.

Python knows only what has run. Which names the cells of a lesson define, its source
says; what was run last, and whether it was Python, IPython's history says. Where
neither is known, nothing is said.
"""

import ast
import contextlib
import dis
import os
import re
import sys
import warnings
from pathlib import Path
from types import CodeType

from sidebyside.course.lesson_format import (
    Cell,
    Lesson,
    checked_in,
    lesson_of,
    lessons,
    stub,
)

NO_TRY = "(this was no try)"


def not_run_yet(name: str, id: str) -> str:
    """A sentence about a name that a cell above the check defines, or ""."""
    shell = _shell()
    if shell is None or name in shell.user_ns:
        return ""
    if name in _names_above_check(id):
        return _not_understood([name]) or (
            f"A cell above, which defines {name}, has not run: choose Run → Run All "
            f"Above Selected Cell, then check again {NO_TRY}."
        )
    return ""


def new_code_not_run(id: str) -> str:
    """A sentence about an exercise whose latest code is no Python, or ""."""
    lesson = lesson_of(id)
    if lesson is None or _shell() is None:
        return ""
    return _not_understood(names_of_answers(lesson, id))


def names_of_answers(lesson: Lesson, id: str) -> list[str]:
    """The names that the exercise's cells define and its check is given."""
    checks = "\n".join(c.source for c in lesson.code_cells if id in c.checked)
    given = set(re.findall(r"\w+", checks))
    return sorted(given & names_defined(stub(lesson.code(id))))


def names_defined(code: str) -> set[str]:
    """The names that this code gives a value to, outside functions and classes."""
    compiled = _compiled_cell(code)
    steps = dis.get_instructions(compiled) if compiled else ()
    stores = "STORE_NAME", "STORE_GLOBAL"
    return {step.argval for step in steps if step.opname in stores}


def explain_names_of_cells_not_run() -> None:
    """From now on a NameError for what a cell of the lesson defines is one sentence."""
    shell = _shell()
    if not shell.custom_exceptions:  # leave alone what others have set
        shell.set_custom_exc((NameError,), _show_name_error)


def _show_name_error(shell, kind, error, traceback, tb_offset=None) -> None:
    with contextlib.suppress(Exception):  # then it is shown as always
        ids = checked_in(shell.history_manager.input_hist_parsed[-1])
        sentences = [not_run_yet(error.name, id) for id in ids if error.name]
        if told := next(filter(None, sentences), _not_run_in_this_lesson(error.name)):
            error._render_traceback_ = lambda: [told]
    shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)


def _not_run_in_this_lesson(name: str) -> str:
    """The same outside checks. Jupyter's server says which notebook the kernel has."""
    notebook = Path(os.environ.get("JPY_SESSION_NAME", "")).stem
    found = [lesson.code_cells for lesson in lessons() if lesson.name == notebook]
    cells = [cell for cells in found for cell in cells]
    if name in _shell().user_ns or name not in _names_in_cells(cells):
        return ""
    return (
        f"A cell of this lesson, which defines {name}, has not run: choose Run → Run "
        f"All Above Selected Cell."
    )


def _names_above_check(id: str) -> set[str]:
    """What the lesson defines from its first cell to the exercise's check."""
    lesson = lesson_of(id)
    cells = lesson.code_cells if lesson else []
    places = [n for n, cell in enumerate(cells) if id in cell.checked]
    return _names_in_cells(cells[: max(places, default=-1) + 1])


def _names_in_cells(cells: list[Cell]) -> set[str]:
    return set().union(*[names_defined(stub(cell.source)) for cell in cells])


def _not_understood(names: list[str]) -> str:
    for name in names:
        if _latest_definition_is_no_python(name):
            return (
                f"The new code of {name} has not run, because its cell has a syntax "
                f"error: correct it, run it, and check again {NO_TRY}."
            )
    return ""


def _latest_definition_is_no_python(name: str) -> bool:
    begins = re.compile(
        rf"^(?:(?:async +)?def|class) +{name}\b|^{name} *[:=](?!=)", re.MULTILINE
    )
    for code in reversed(_shell().history_manager.input_hist_parsed):
        if _compiled_cell(code) is None:
            if begins.search(code):
                return True
        elif name in names_defined(code):
            return False
    return False


def _compiled_cell(code: str) -> CodeType | None:
    """None if this is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when the cell ran
        try:
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            return compile(code, "<cell>", "exec", flags, dont_inherit=True)
        except (SyntaxError, ValueError):
            return None


def _shell():
    """IPython's shell; None outside a notebook. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None
