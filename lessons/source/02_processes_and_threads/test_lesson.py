"""What lesson 02 says about processes and threads is so on this machine."""

import json
import multiprocessing
import os
import re
import sys
from pathlib import Path
from threading import Thread

import pytest

from demos.processes import create_process
from lessons.props.processes_and_threads import (
    spawn,
)
from tests.process_state import said_by

DEMOS = Path(create_process.__file__).parent
METHODS = multiprocessing.get_all_start_methods()


def test_a_thread_has_no_exit_code_and_cannot_be_ended_from_outside():
    assert hasattr(spawn.Process, "exitcode") and hasattr(spawn.Process, "terminate")
    assert not any(hasattr(Thread, n) for n in ("exitcode", "terminate", "kill"))


@pytest.mark.parametrize("method", METHODS)
def test_what_a_child_changes_its_parent_does_not_see(method):
    said = said_by(DEMOS / "process_memory.py", "--start-method", method)
    values = [int(v) for v in re.findall(r"has +(\d+) in", said)]
    addresses = re.findall(r"0x\w+", said)
    at_first = 2 if method == "fork" else 1  # the parent's value, or the file's
    assert values == [2, at_first, at_first + 100, 2]
    assert addresses[0] == addresses[3] and addresses[1] == addresses[2]
    if method == "fork":
        assert len(set(addresses)) == 1, "two numbers at the same address"


def test_what_a_thread_changes_every_thread_sees():
    said = said_by(DEMOS / "thread_memory.py")
    assert re.findall(r"has +(\d+) in", said) == ["2", "2", "102", "102"]
    assert len(set(re.findall(r"0x\w+", said))) == 1
    assert len(set(re.findall(r"pid (\d+)", said))) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="memory is shared in other ways")
def test_a_forked_child_that_reads_a_list_gets_copies_and_of_an_array_none():
    said = said_by(DEMOS / "forked_child.py", "--numbers", "1000000")
    first, array, objects = map(float, re.findall(r"([\d.]+) MB", said))
    assert array - first < 4, "8 MB of numbers are shared"
    assert objects - array > 20, "24 MB of objects are not"


def test_the_table_of_start_methods_tells_what_each_copies(tmp_path):
    file = tmp_path / "costs.json"
    few = "--most", "3", "--seconds", "0.01"
    said_by(DEMOS / "creation_cost.py", *few, "--save", str(file))
    found = json.loads(file.read_text())
    assert set(found) == {"thread", *METHODS}
    for name, facts in found.items():
        shares = name in ("thread", "fork")
        assert facts["number"] == (100 if shares else 1)
        assert facts["a lambda"] == facts["an open file"] == ("yes" if shares else "no")
        if os.name == "posix":
            assert facts["file"] == ("open" if shares else "not open")
    assert all(found["thread"]["MB"] < found[method]["MB"] for method in METHODS)


@pytest.mark.skipif(os.name == "nt", reason="a folder in use cannot be removed there")
def test_a_folder_that_is_gone_keeps_no_check_from_being_read(tmp_path):
    gone = f"import os, torch; os.chdir({str(tmp_path)!r}); os.rmdir(os.getcwd())"
    read = f"import importlib; importlib.import_module('{__package__}.checks')"
    said_by("-c", f"{gone}; {read}")
