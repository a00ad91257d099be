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
    Lesson,
    checked_in,
    lesson_of,
    lessons,
    stub,
)

CHECK_AGAIN = ", then check again (this was no try)"


def not_run_yet(name: str, lesson: Lesson | None, afterwards: str = "") -> str:
    """A sentence about a name that a cell of the lesson defines, or ""."""
    shell = _shell()
    if shell is None or lesson is None or name in shell.user_ns:
        return ""
    defined = [names_defined(stub(cell.source)) for cell in lesson.code_cells]
    if name not in set().union(*defined):
        return ""
    return _not_understood([name], afterwards) or (
        f"A cell above, which defines {name}, has not run: choose Run → Run All Above "
        f"Selected Cell{afterwards}."
    )


def new_code_not_run(id: str) -> str:
    """A sentence about an exercise whose latest code is no Python, or ""."""
    lesson = lesson_of(id)
    if lesson is None or _shell() is None:
        return ""
    return _not_understood(names_of_answers(lesson, id), CHECK_AGAIN)


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
        told = [not_run_yet(error.name, lesson_of(id), CHECK_AGAIN) for id in ids]
        # Jupyter's server says which notebook the kernel has.
        notebook = Path(os.environ.get("JPY_SESSION_NAME", "")).stem
        told += [
            not_run_yet(error.name, lesson)
            for lesson in lessons()
            if lesson.name == notebook
        ]
        if sentence := next(filter(None, told), ""):
            error._render_traceback_ = lambda: [sentence]
    shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)


def _not_understood(names: list[str], afterwards: str) -> str:
    for name in names:
        if _latest_definition_is_no_python(name):
            return (
                f"The new code of {name} has not run, because its cell has a syntax "
                f"error: correct it and run it{afterwards}."
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
