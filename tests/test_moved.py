"""Old names of modules lead to the new: in learners' copies, and where imported."""

import importlib.util

import nbformat
import pytest
from nbformat import v4

from sidebyside.__main__ import update_in_words
from sidebyside.course.moved import (
    OF_INSTRUMENTS,
    TO_ANOTHER_ROOM,
    new_name,
    rewritten,
)
from sidebyside.course.own_copies import REPLACED, update_own_copies
from sidebyside.course.record import ROOT

OLD_IMPORTS = """
from demos.gil import sleeping_threads
from demos.gil.parts import thread_turns as turns
from demos.pipeline.parts import (
    schedules,
    kept_bytes,
)
from demos.pipeline.parts.schedules import gpipe
import demos.failures.parts.atomic_file as atomic
from parallel_by_hand.failures import failing_ranks, failure_clock
from sidebyside.devices import device
"""


def test_a_worked_copy_imports_the_modules_by_their_new_names(tmp_path):
    exec(rewritten(OLD_IMPORTS), names := {})
    assert {"sleeping_threads", "turns", "kept_bytes", "atomic"} <= names.keys()
    assert names["failure_clock"].young_interval
    cells = [v4.new_code_cell(OLD_IMPORTS), v4.new_code_cell("my = 'answer'")]
    copy = tmp_path / "01_why_parallel.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), copy)
    before = copy.read_bytes()
    update = update_own_copies(ROOT / "lessons", tmp_path)
    assert update.renamed == ["01_why_parallel"]
    said = "\n".join(update_in_words(update, ROOT))
    assert "Modules have new names; your cells now import those: 01." in said
    assert f"are in my_lessons/{REPLACED}." in said
    sources = [cell.source for cell in nbformat.read(copy, 4).cells]
    assert sources == [rewritten(OLD_IMPORTS), "my = 'answer'"]
    assert (tmp_path / REPLACED / copy.name).read_bytes() == before
    assert not update_own_copies(ROOT / "lessons", tmp_path).renamed


def test_text_that_names_files_and_modules_is_rewritten():
    old = "see `demos/sharding/parts/zero_3.py`; python -m demos.gil.parts.thread_turns"
    assert rewritten(old) == (
        "see `resources/parallel_by_hand/sharding/zero_3.py`; "
        "python -m lessons.props.the_gil"
    )
    others = (
        "demos/gil/sleeping_threads.py, demos.gil.sleeping_threads, demos.mine.parts.x"
        "\nfrom parallel_by_hand.failures import (\n    failing_ranks,\n)"
    )
    assert rewritten(others) == others


@pytest.mark.parametrize("place", TO_ANOTHER_ROOM.values())
def test_the_new_place_is_there(place):
    assert importlib.import_module(place)


@pytest.mark.parametrize("module", ["pipeline.schedules", "gil.thread_turns"])
def test_an_old_import_says_where_the_module_is_now(module):
    group, name = module.split(".")
    with pytest.raises(ImportError, match=rf"is now {new_name(group, name)}: import"):
        importlib.import_module(f"demos.{group}.parts.{name}")
    with pytest.raises(ImportError, match=rf"{group}.parts.mine is no longer there$"):
        importlib.import_module(f"demos.{group}.parts.mine")


def test_an_instrument_that_a_copy_imports_by_its_module_is_found():
    for old in OF_INSTRUMENTS:
        module = rewritten(f"from sidebyside.{old} import x").split()[1]
        assert importlib.util.find_spec(module)
        with pytest.raises(ImportError, match=f"is now {module}: import"):
            importlib.import_module(f"sidebyside.{old}")
