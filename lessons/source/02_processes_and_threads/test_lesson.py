"""What lesson 02 says about processes and threads is so on this machine."""

import json
import multiprocessing
import os
import re
import sys
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from threading import Thread

import pytest

from demos.processes import create_process
from lessons.props.processes_and_threads import (
    send_squares,
    spawn,
)
from tests.process_state import is_alive, said_by, wait_until

DEMOS = Path(create_process.__file__).parent
METHODS = multiprocessing.get_all_start_methods()
needs_fork = pytest.mark.skipif("fork" not in METHODS, reason="this system has no fork")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system has no groups")
def test_a_signal_to_a_group_reaches_everyone_in_it_and_nobody_else():
    said = said_by(DEMOS / "process_ids.py")
    assert "child 1 is alive: True\nchild 2 is alive: False" in said
    assert said.endswith("the child of child 2 is alive: False\n")
    table = said.partition("\n\n")[0].splitlines()
    rows = [list(map(int, re.findall(r"\b\d+\b", line)[-3:])) for line in table[2:]]
    names = [re.split(", |  +", line.strip())[1] for line in table[2:]]
    row_of = dict(zip(names, rows, strict=True))
    ours, grandchild = row_of["this demo"], row_of["child of child 2"]
    child_1, child_2 = row_of["child 1"], row_of["child 2"]
    assert child_1[1] == child_2[1] == ours[0]
    assert child_1[2] == ours[2] != child_2[2] == child_2[0]
    assert (grandchild[1], grandchild[2]) == (child_2[0], child_2[2])
    wait_until(lambda: not any(is_alive(row[0]) for row in rows))


def test_the_parent_gets_an_exit_code_and_nothing_else():
    said = said_by(DEMOS / "create_process.py", "--seconds", "0.1")
    codes = [int(line.split()[-1]) for line in said.splitlines()[-4:]]
    assert codes == [0, 1, 3, -15]


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


def test_a_large_result_must_be_received_before_the_join():
    ours, theirs = spawn.Pipe()
    child = spawn.Process(target=send_squares, args=(theirs, list(range(200_000))))
    child.start()
    assert ours.poll(30), "the child has begun to send"
    child.join(0.5)
    waits = child.is_alive()
    pid, squares = ours.recv()
    child.join()
    assert waits and pid == child.pid and len(squares) == 200_000


@needs_fork
def test_of_all_threads_only_the_one_that_forked_is_in_the_child():
    said = said_by(DEMOS / "forked_child.py", "--numbers", "1")
    assert "threads in the parent: 2\nthreads in the child:  1\n" in said


@pytest.mark.skipif(sys.platform != "linux", reason="memory is shared in other ways")
def test_a_forked_child_that_reads_a_list_gets_copies_and_of_an_array_none():
    said = said_by(DEMOS / "forked_child.py", "--numbers", "1000000")
    first, array, objects = map(float, re.findall(r"([\d.]+) MB", said))
    assert array - first < 4, "8 MB of numbers are shared"
    assert objects - array > 20, "24 MB of objects are not"


def test_memory_with_a_name_can_be_sent_at_any_time_and_an_array_cannot():
    ours, theirs = spawn.Pipe()
    with pytest.raises(RuntimeError):
        ours.send(spawn.RawArray("q", 1))
    block = SharedMemory(create=True, size=1)
    try:
        ours.send(block)
        again = theirs.recv()
        block.buf[0] = 7
        assert again.buf[0] == 7
        again.close()
    finally:
        block.close()
        block.unlink()


UNRELATED = """
import subprocess, sys
from multiprocessing import resource_tracker, shared_memory
block = shared_memory.SharedMemory(create=True, size=1)
opens = "from multiprocessing.shared_memory import *; SharedMemory({!r}{})"
opens = opens.format(block.name, sys.argv[1])
subprocess.run([sys.executable, "-c", opens], capture_output=True)  # its tracker, too
try:
    block.unlink()
    print("there")
except FileNotFoundError:
    resource_tracker.unregister("/" + block.name, "shared_memory")
    print("removed")
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows counts who has it open")
@pytest.mark.parametrize(
    ("options", "left"), [("", "removed"), (", track=False", "there")]
)
def test_an_unrelated_process_removes_memory_with_a_name_unless_told(options, left):
    if options and sys.version_info < (3, 13):
        pytest.skip("track came with Python 3.13")
    assert said_by("-c", UNRELATED, options) == f"{left}\n"


def test_the_table_of_start_methods_tells_what_each_copies(tmp_path):
    file = tmp_path / "costs.json"
    few = "--most", "3", "--seconds", "0.01"
    said = said_by(DEMOS / "creation_cost.py", *few, "--save", str(file))
    found = json.loads(file.read_text())
    assert set(found) == {"thread", *METHODS}
    for name, facts in found.items():
        shares = name in ("thread", "fork")
        assert facts["number"] == (100 if shares else 1)
        assert facts["a list"] == "yes"
        assert facts["a lambda"] == facts["an open file"] == ("yes" if shares else "no")
        if os.name == "posix":
            assert facts["file"] == ("open" if shares else "not open")
        assert facts["ended"] == sorted(facts["ended"])
        assert len(facts["ended"]) <= 3, "they stop at the number"
        assert name in said
    assert len(found["spawn"]["ended"]) == 1, "or at the time"
    assert all(found["thread"]["MB"] < found[method]["MB"] for method in METHODS)


# As in a notebook, __main__ is no file here.
NOTEBOOK = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
context = multiprocessing.get_context(sys.argv[1])

def square(n):
    return n * n

child = context.Process(target=square, args=(7,))
child.start()
child.join(20)
print(child.exitcode)
with context.Pool(1) as pool:
    task = pool.apply_async(square, (7,))
    task.wait(1 if child.exitcode else 20)
    print(task.ready())
with ProcessPoolExecutor(1, mp_context=context) as pool:
    print(type(pool.submit(square, 7).exception(timeout=20)).__name__)
"""


@pytest.mark.parametrize("method", [m for m in METHODS if m != "spawn"])
def test_a_notebook_function_is_found_by_forked_children_only(method):
    expected = ["0", "True", "NoneType"] if method == "fork" else None
    expected = expected or ["1", "False", "BrokenProcessPool"]
    assert said_by("-W", "ignore", "-c", NOTEBOOK, method).split() == expected
