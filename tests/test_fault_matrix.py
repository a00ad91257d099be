"""Whatever goes wrong in a rank, or around it: what comes out is said, the next call
works, and nothing lives or lies around."""

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import cloudpickle
import psutil
import pytest

from sidebyside import RankFailed, RanksHung, run_ranks
from sidebyside.ranks import crew
from sidebyside.ranks.launch import call_in_processes
from tests.plugins.leaks import MARKER
from tests.process_state import marked, wait_until

pytestmark = pytest.mark.everything

# As if they were defined in a notebook: the ranks need not import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

METHODS = [
    method
    for method in ("forkserver", "spawn")
    if method in multiprocessing.get_all_start_methods()
]
needs_forkserver = pytest.mark.skipif("forkserver" not in METHODS, reason="Windows")


def lying_around() -> set[str]:
    """Temporary files; a forkserver's folder lives as long as this process."""
    names = os.listdir(tempfile.gettempdir())
    return {name for name in names if not name.startswith("pymp-")}


@pytest.fixture(autouse=True)
def afterwards_the_next_call_works_and_nothing_stays():
    files = lying_around()
    yield
    assert call_in_processes(max, [(1, 2), (3, 4)]) == [2, 4]
    own = {psutil.Process(), *psutil.Process().children()}  # servants live on
    wait_until(lambda: own.issuperset(marked(os.environ[MARKER], MARKER)))
    assert lying_around() == files


@pytest.fixture
def patch():
    """Like monkeypatch, and undone before the next call is tried."""
    with pytest.MonkeyPatch.context() as changed:
        yield changed


# In a rank ----------------------------------------------------------------------------


class Fault(NamedTuple):
    """What rank 1 does, and what is to be said of it; "" if nothing is wrong."""

    act: Callable
    said: str
    details: str = ""
    error: type[Exception] = RankFailed


def raises_from():
    try:
        {}["missing"]
    except KeyError as error:
        raise ValueError("no such part") from error


class Unrebuildable:
    def __reduce__(self):
        return eval, ("1 / 0",)


def forks(end_of_child: Callable):
    """The child ends before the rank does, in one way or another."""
    if (child := os.fork()) == 0:
        end_of_child()
        return "the child's"
    os.waitpid(child, 0)
    return "the rank's"


def returns_after_a_fork():
    found = [forks(end) for end in (int, lambda: sys.exit("child"), lambda: 1 / 0)]
    assert found == ["the rank's"] * 3
    return found


def says_much():
    raise ValueError("x" * 20_000_000)


def explodes():
    """Holds the GIL, so that no thread of this process can do anything."""
    re.match(r"(a+)+$", "a" * 50 + "b")


def leaves_children():
    """A program, a process with a child of its own, a thread; and never a sign."""
    subprocess.Popen(["sleep", "600"])
    if os.fork() == 0:
        os.fork()
        signal.pause()
    threading.Thread(target=time.sleep, args=[600]).start()


def leaves_children_and_waits():
    leaves_children()
    threading.Event().wait()


FAULTS = {
    "raises from a cause": Fault(
        raises_from,
        "raised ValueError: no such part",
        r"(?s)KeyError: 'missing'\n.*direct cause.*in raises_from.*ValueError: no such",
    ),
    "says much": Fault(says_much, "x{100} …", "and 19,998,0.. more characters"),
    "exits with words": Fault(
        lambda: sys.exit("enough"), "exited with status 1: enough"
    ),
    "is killed": Fault(
        lambda: os.kill(os.getpid(), 9), "killed by SIGKILL; often .* memory ran out"
    ),
    "returns a lock": Fault(
        lambda: threading.Lock(), r"its result, of type _thread\.lock, cannot be sent"
    ),
    "fails to be rebuilt": Fault(Unrebuildable, "cannot be rebuilt here: ZeroDivision"),
    "hangs": Fault(
        leaves_children_and_waits,
        "not done after .*: rank 1 still works, rank 0 finished",
        r"rank 1 waits in wait, at\n.*in leaves_children_and_waits",
        RanksHung,
    ),
    "holds the GIL": Fault(
        explodes,
        "not done after .*: rank 1 still works",
        "rank 1 does not answer: it is inside compiled code",
        RanksHung,
    ),
    "leaves children and a thread": Fault(leaves_children, ""),
    "forks, and the child returns too": Fault(returns_after_a_fork, ""),
}
# What depends on how a process was started. The rest is the same code in both.
WITH_SPAWN = ["is killed", "hangs", "leaves children and a thread"]
CASES = [(name, METHODS[0]) for name in FAULTS]
CASES += [(name, "spawn") for name in WITH_SPAWN if METHODS[0] != "spawn"]


def in_rank_1(act: Callable, rank: int):
    return act() if rank == 1 else None


@pytest.mark.parametrize(("name", "method"), CASES)
def test_a_rank_that(name, method, patch):
    fault = FAULTS[name]
    arguments = [(fault.act, 0), (fault.act, 1)]
    if not fault.said:
        assert call_in_processes(in_rank_1, arguments, start_method=method)[0] is None
        return
    patch.setattr(crew, "ANSWER", 1)
    for seconds in (2, 60) if fault.error is RanksHung else (60,):
        with pytest.raises(fault.error) as raised:
            call_in_processes(in_rank_1, arguments, seconds, start_method=method)
        # of the text only: `match` would look into the notes, too: they show this file
        said = re.search(fault.said, str(raised.value))
        if said and re.search(fault.details, raised.value.details):
            break  # else the ranks had been slow to begin
    assert said and raised.value.rank == 1
    assert re.search(fault.details, raised.value.details)
    assert len(raised.value.details) < 10_000


# Around the ranks ---------------------------------------------------------------------

WRONG = [
    ({"world_size": 0}, "world_size must be a whole number from 1 to 128, not 0"),
    ({"timeout": 0}, "timeout must be above 0 and at most 1,000,000 .*, not 0"),
    ({"start_method": "fork"}, 'start_method must be .*"spawn", not .fork'),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_an_impossible_argument_is_refused_with_what_is_allowed(options, said):
    with pytest.raises(ValueError, match=said):
        run_ranks(os.getpid, **options)


def test_a_variable_of_torchrun_without_torchrun_is_named(patch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        patch.delenv(name, raising=False)
    patch.setenv("TORCHELASTIC_RUN_ID", "x")
    with pytest.raises(RuntimeError, match=r"TORCHELASTIC_RUN_ID is set.* remove that"):
        run_ranks(os.getpid, timeout=1)


# Forkservers --------------------------------------------------------------------------


def forkserver_in_a_rank() -> int:
    """What learners may do in a rank, and what nested calls do."""
    worker = multiprocessing.get_context("forkserver").Process(target=os.getpid)
    worker.start()
    worker.join()
    return worker.exitcode, len(call_in_processes(max, [(1, 2), (3, 4)]))


@needs_forkserver
@pytest.mark.parametrize("method", METHODS)
def test_a_forkserver_inside_a_rank_is_no_harm(method):
    work = [(), ()]
    found = call_in_processes(forkserver_in_a_rank, work, 300, start_method=method)
    assert found == [(0, 2), (0, 2)]


@needs_forkserver
def test_the_notebooks_own_multiprocessing_is_left_as_it_is():
    from multiprocessing import forkserver, util

    assert util.spawnv_passfds.__module__ == "multiprocessing.util"
    usual = forkserver._forkserver
    before = [*usual._preload_modules], usual._forkserver_pid
    assert call_in_processes(max, [(1, 2), (3, 4)]) == [2, 4]
    assert ([*usual._preload_modules], usual._forkserver_pid) == before


@needs_forkserver
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_forkserver_that_was_killed_or_stopped_works_again(how):
    from sidebyside.ranks.forkserver import server

    server.ensure_running()
    os.kill(server._forkserver_pid, how)
    os.waitid(os.P_PID, server._forkserver_pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    assert call_in_processes(max, [(1, 2), (3, 4)]) == [2, 4]


# The machine --------------------------------------------------------------------------


def addresses_listened_at() -> set[str]:
    listening = psutil.Process().net_connections("inet")
    return {place.laddr.ip for place in listening if place.status == psutil.CONN_LISTEN}


def test_ranks_can_be_reached_from_this_machine_only():
    assert set().union(*run_ranks(addresses_listened_at)) == {"127.0.0.1"}


CORES_OF_RANKS = """
import os, torch
from sidebyside import run_ranks

def cores_of_rank():
    torch.distributed.barrier()
    return os.sched_getaffinity(0)

if __name__ == "__main__":
    print(run_ranks(cores_of_rank))
"""


NAMESPACES = "unshare", "--map-root-user", "--net", "--mount", "--pid", "--fork"
MUTE = "import socket, time; s = socket.socket(2, 2); s.bind(('127.0.0.1', 53))"
PLACES = {
    "no network": "true",
    "a silent name server": f"""
        echo nameserver 127.0.0.1 > ../resolv; mount --bind ../resolv /etc/resolv.conf
        {sys.executable} -P -c "{MUTE}; time.sleep(600)" &""",
    "variables that somebody has set": """
        export GLOO_SOCKET_IFNAME=eth7 OMP_PROC_BIND=true http_proxy=http://10.9.9.9:1
        export TORCH_DISTRIBUTED_DEBUG=DETAIL PYTHONOPTIMIZE=2 HOME=/proc""",
    "a long temporary folder": "export TMPDIR=$PWD",
}


@pytest.mark.parametrize("place", PLACES)
def test_ranks_meet_and_have_all_cores_with(place, tmp_path):
    """The script is the first process of a container, after a shell's line."""
    if not shutil.which("unshare") or subprocess.run([*NAMESPACES, "true"]).returncode:
        pytest.skip("needs a Linux on which namespaces can be made")
    folder, script = tmp_path / ("long" * 20), tmp_path / "script.py"
    folder.mkdir()
    (folder / "random.py").touch()
    script.write_text(CORES_OF_RANKS)
    lines = f"mount -t proc x /proc\nip link set lo up\n{PLACES[place]}"
    shell = "sh", "-c", f'{lines}\nexec "$@"', "sh", sys.executable, script
    done = subprocess.run(
        [*NAMESPACES, *shell], cwd=folder, capture_output=True, text=True, timeout=120
    )
    cores = [os.sched_getaffinity(0)] * 2
    assert (done.stdout, done.stderr) == (f"{cores}\n", "")
    assert os.listdir(folder) == ["random.py"]
