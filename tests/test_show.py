"""show gives the source code of what a lesson talks about, wherever it is defined."""

import functools
import os
import subprocess
import sys

import pytest

from sidebyside import show


def doubled(x: int) -> int:
    """Twice x."""
    return 2 * x


@functools.wraps(doubled)
def wrapped(x: int) -> int:
    return doubled(x)


def test_a_function_is_shown_as_it_is_written(capsys):
    show(doubled)
    assert capsys.readouterr().out == (
        'def doubled(x: int) -> int:\n    """Twice x."""\n    return 2 * x\n'
    )


def test_a_wrapped_function_is_shown_itself(capsys):
    show(wrapped)
    assert capsys.readouterr().out.startswith("def doubled(x")


@pytest.mark.parametrize("thing", [len, 3, int, None, "text"])
def test_what_has_no_source_is_refused_by_name(thing):
    with pytest.raises(ValueError, match=r"show\(obj\): obj must be a function"):
        show(thing)


def test_a_program_prints_where_standard_output_has_few_characters():
    """As on Windows, in a file or a pipe."""
    code = "from sidebyside import run_program; run_program(lambda: print('→ ×'))"
    env = os.environ | {"PYTHONIOENCODING": "cp1252"}
    assert subprocess.check_output([sys.executable, "-c", code], env=env) == (
        f"? ×{os.linesep}".encode("cp1252")
    )
