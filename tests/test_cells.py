"""A cell that has not run, or that is no Python, is told in one sentence, and no try.

These run in a notebook's kernel, with the first lesson's exercise.
"""

import contextlib
import os

import pytest
from nbclient import NotebookClient
from nbformat import v4

from lessons.source.execution import at_free_ports
from sidebyside import RankFailed
from sidebyside.course.record import read_record, record_file
from sidebyside.exercises.cells import names_defined, names_of_answers
from sidebyside.exercises.findings import NOT_YET, Finding
from sidebyside.ranks.launch import call_in_processes
from tests.exercise_rules import all_cases

IMPORT = "from sidebyside import check"
STUB = 'def saved(minutes):\n    raise NotImplementedError("your turn")'
RIGHT = "def saved(minutes):\n    return sum(minutes) - max(minutes, default=0)"
CHECK = 'check("00-saved", saved)'
NO_PYTHON = RIGHT.replace("):", ")")

NOTHING_HAS_RUN = IMPORT, RIGHT, "del saved"

NOT_RUN = (
    "A cell above, which defines saved, has not run: choose Run → Run All Above "
    "Selected Cell, then check again (this was no try)."
)
OLD_CODE = (
    "The new code of saved has not run, because its cell has a syntax error: correct "
    "it and run it, then check again (this was no try)."
)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """The first lesson's; a cell has run before any that imports the course."""
    folder = tmp_path_factory.mktemp("my_lessons")
    for name in "joblib.py", "my_own.py":
        (folder / name).touch()
    env = os.environ | {"JPY_SESSION_NAME": "my_lessons/00_start_here.ipynb"}
    env |= {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    options = {"allow_errors": True, "resources": {"metadata": {"path": folder}}}
    client = NotebookClient(v4.new_notebook(), kernel_name="python3", **options)
    with contextlib.ExitStack() as stack:
        at_free_ports(lambda: stack.enter_context(client.setup_kernel(env=env)))
        client.nb.cells.append(cell := v4.new_code_cell("progress()"))
        client.execute_cell(cell, 0)
        yield client


@pytest.fixture
def said(kernel):
    """Run cells; of the last one, what kind of output comes first, and its text."""
    record = f"import os; os.environ['SIDEBYSIDE_PROGRESS'] = {str(record_file())!r}"

    def run(*cells: str) -> tuple[str, str]:
        for code in [record, *NOTHING_HAS_RUN, *cells]:
            kernel.nb.cells.append(cell := v4.new_code_cell(code))
            kernel.execute_cell(cell, len(kernel.nb.cells) - 1)
        first = next(output for output in cell.outputs if output.get("data") != {})
        text = first.get("text") or "\n".join(first.get("traceback", []))
        if first.output_type == "stream":
            assert max(map(len, text.splitlines())) <= 100, "it would break in a word"
        return first.output_type, " ".join(text.split())

    return run


def tries() -> int:
    return read_record()["exercises"].get("00-saved", {}).get("tries", 0)


def test_a_check_whose_cell_above_has_not_run_says_so_in_one_sentence(said):
    assert said(CHECK) == ("error", NOT_RUN)
    assert tries() == 0


def test_the_first_cell_says_what_would_change_results(kernel):
    first, second = kernel.nb.cells[0].outputs[1].text.splitlines()
    assert first.startswith("TORCH_DISTRIBUTED_DEBUG is set aside here")
    assert second.startswith("joblib.py, beside this notebook, hides the library's")


def test_what_a_cell_of_the_lesson_imports_is_told_after_a_restart(kernel, said):
    told = NOT_RUN.replace(", then check again (this was no try)", "")
    first = kernel.nb.cells[0].outputs[0].traceback
    assert first == [told.replace("saved", "progress")]
    assert said("guess('00-capacity', 2)") == ("error", told.replace("saved", "guess"))


@pytest.mark.parametrize(
    "cell", ["compare(rounds=1, a=lambda: sleep(1.1))", 'check("00-saved", slow)']
)
def test_a_long_cell_says_how_far_it_is_and_leaves_an_empty_output(cell, kernel, said):
    slow = (
        "def slow(minutes):\n    from time import sleep\n    sleep(1.5)\n    return 0"
    )
    said("from time import sleep\nfrom sidebyside import compare", slow, cell)
    line, result = kernel.nb.cells[-1].outputs
    assert (line.output_type, line.data) == ("display_data", {})
    assert result.output_type in ("execute_result", "stream")


def test_the_line_of_a_cell_that_fails_is_shown(said):
    kind, told = said("def saved(minutes):\n    return minutes + '1'", CHECK)
    assert (kind, "at line 2, in saved: return minutes + '1'" in told) == (
        "stream",
        True,
    )


def test_an_answer_that_needs_a_cell_above_which_has_not_run_is_no_try(said):
    uses = "def saved(minutes):\n    return breakfast"
    assert said(uses, CHECK) == ("stream", NOT_RUN.replace("saved", "breakfast"))
    assert tries() == 0


def test_a_name_that_is_unknown_in_a_rank_is_handed_on_as_a_name():
    with pytest.raises(RankFailed) as failed:
        call_in_processes(eval, [("1 + breakfast",), ("1",)])
    finding = Finding(NOT_YET, [("came back", failed.value.outcome)])
    assert finding.unknown_names() == {"breakfast"}


@pytest.mark.parametrize("before", [STUB, RIGHT, "saved = ..."])
def test_old_code_is_not_judged_after_a_syntax_error_in_the_new(before, said):
    assert said(before, NO_PYTHON, CHECK) == ("stream", OLD_CODE)
    assert tries() == 0


def test_a_syntax_error_in_the_only_cell_is_not_a_cell_that_has_not_run(said):
    assert said(NO_PYTHON, CHECK) == ("error", OLD_CODE)


@pytest.mark.parametrize(
    "cells",
    [
        [NO_PYTHON, RIGHT],
        [NO_PYTHON, f"{RIGHT}\nawait __import__('asyncio').sleep(0)"],
        [RIGHT, "saved([1, 2]"],  # a trial with a syntax error of its own
    ],
)
def test_what_has_run_since_is_judged(cells, said):
    assert said(*cells, CHECK) == ("stream", "00-saved: PASSED")
    assert tries() == 1


@pytest.mark.parametrize(
    "cell", ['check("00-saved", savd)', "savd", 'check("98-other", savd)']
)
def test_a_name_that_no_cell_above_defines_is_pythons_own_error(cell, said):
    kind, text = said(cell)
    assert kind == "error"
    assert "Traceback" in text
    assert "is not defined" in text


def test_the_names_of_a_cell_are_those_that_a_notebook_knows_afterwards():
    code = "import a.b, c as d\nfor e in []: f = 1\ndef g(h): i = 1\nclass J: k = 1"
    assert names_defined(code) == {"a", "d", "e", "f", "g", "J"}
    assert names_defined("def g(:") == set()


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_every_exercise_has_a_name_whose_cell_can_be_watched(case):
    assert names_of_answers(case.lesson, case.id)
