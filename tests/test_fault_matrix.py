"""Whatever goes wrong in a rank, or around it: what comes out is said, the next call
works, and nothing lives or lies around."""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
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
from tests.process_state import is_alive, wait_until

# As if they were defined in a notebook: the ranks need not import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

METHODS = [
    method
    for method in ("forkserver", "spawn")
    if method in multiprocessing.get_all_start_methods()
]
needs_forkserver = pytest.mark.skipif("forkserver" not in METHODS, reason="Windows")


def living() -> set[int]:
    """Every process that a rank may have started, or is. Our own servants live on."""
    servants = {child.pid for child in psutil.Process().children()}
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            marker = process.environ().get(MARKER, "")
            dead = process.status() == psutil.STATUS_ZOMBIE
            if marker.startswith(os.environ[MARKER]) and not dead:
                found.add(process.pid)
    return found - servants - {os.getpid()}


def lying_around() -> set[str]:
    """Temporary files; a forkserver's folder lives as long as this process."""
    names = os.listdir(tempfile.gettempdir())
    return {name for name in names if not name.startswith("pymp-")}


@pytest.fixture(autouse=True)
def afterwards_the_next_call_works_and_nothing_stays():
    files = lying_around()
    yield
    assert call_in_processes(max, [(1, 2), (3, 4)]) == [2, 4]
    wait_until(lambda: not living())
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


def raises_meanwhile():
    try:
        {}["missing"]
    except KeyError:
        [][0]


def recurses(depth: int = 0):
    return recurses(depth + 1)


class Unrebuildable:
    def __reduce__(self):
        return eval, ("1 / 0",)


def raises_a_group():
    reasons = [TypeError("never raised"), ExceptionGroup("inner", [KeyError("deep")])]
    try:
        int("no number")
    except ValueError as error:
        raise ExceptionGroup("several", [error, *reasons]) from None


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
    "raises while it handles": Fault(
        raises_meanwhile,
        "raised IndexError",
        r"(?s)KeyError: 'missing'\n.*During handling.*in raises_mean.*IndexError",
    ),
    "raises a group": Fault(
        raises_a_group,
        "raised ExceptionGroup: several",
        r"ValueError: invalid .* \(line \d+, in raises_a_group\)\n"
        r" *TypeError: never raised\n *ExceptionGroup: inner .*\n *KeyError: 'deep'",
    ),
    "says much": Fault(says_much, "x{100} …", "and 19,998,0.. more characters"),
    "recurses": Fault(
        recurses, "raised RecursionError", r"Previous line repeated \d{3} more times"
    ),
    "exits with words": Fault(
        lambda: sys.exit("enough"), "exited with status 1: enough"
    ),
    "is killed": Fault(
        lambda: os.kill(os.getpid(), 9), "killed by SIGKILL; often .* memory ran out"
    ),
    "crashes": Fault(
        lambda: exec("import ctypes; ctypes.string_at(0)"), "was killed by SIGSEGV"
    ),
    "runs out of memory": Fault(lambda: bytearray(10**17), "raised MemoryError"),
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
    ({"world_size": True}, "world_size must be .*, not True"),
    ({"world_size": 2.0}, "world_size must be .*, not 2.0"),
    ({"timeout": 0}, "timeout must be above 0 and at most 1,000,000 .*, not 0"),
    ({"timeout": float("nan")}, "timeout must be .*, not nan"),
    ({"timeout": "60"}, "timeout must be .*, not '60'"),
    ({"start_method": "fork"}, 'start_method must be .*"spawn", not .fork'),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_an_impossible_argument_is_refused_with_what_is_allowed(options, said):
    with pytest.raises(ValueError, match=said):
        run_ranks(os.getpid, **options)


@pytest.mark.parametrize("variables", [{}, {"RANK": "x", "WORLD_SIZE": "2"}])
def test_a_variable_of_torchrun_without_torchrun_is_named(variables, patch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        patch.delenv(name, raising=False)
    for name, value in (variables | {"TORCHELASTIC_RUN_ID": "x"}).items():
        patch.setenv(name, value)
    with pytest.raises(RuntimeError, match=r"TORCHELASTIC_RUN_ID is set.* remove that"):
        run_ranks(os.getpid, timeout=1)


def test_a_worker_of_a_pool_is_told_what_else_to_use(patch):
    process = multiprocessing.current_process()
    patch.setitem(process._config, "daemon", True)
    with pytest.raises(RuntimeError, match=r"use .*ProcessPoolExecutor"):
        run_ranks(os.getpid)


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


@needs_forkserver
def test_a_forked_child_can_start_ranks_too():
    def call_in_child() -> None:
        os._exit(call_in_processes(max, [(1, 2), (3, 4)]) != [2, 4])

    child = multiprocessing.get_context("fork").Process(target=call_in_child)
    child.start()
    child.join()
    assert child.exitcode == 0


# The machine --------------------------------------------------------------------------


def addresses_listened_at() -> set[str]:
    listening = psutil.Process().net_connections("inet")
    return {place.laddr.ip for place in listening if place.status == psutil.CONN_LISTEN}


def test_ranks_can_be_reached_from_this_machine_only():
    assert set().union(*run_ranks(addresses_listened_at)) == {"127.0.0.1"}


def run_script(tmp_path, text: str, *before, **more) -> subprocess.CompletedProcess:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    command = [*before, sys.executable, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


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
    "64 open files and little shared memory": """
        ulimit -n 64; mount -t tmpfs -o size=64k tmpfs /dev/shm""",
    "the letters of old Windows": """
        export LC_ALL=C PYTHONUTF8=0 PYTHONIOENCODING=cp437""",
}


@pytest.fixture
def somewhere(tmp_path):
    """Run the script as the first process of a container, after a shell's line."""
    if not shutil.which("unshare") or subprocess.run([*NAMESPACES, "true"]).returncode:
        pytest.skip("needs a Linux on which namespaces can be made")
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    (folder / "random.py").touch()

    def run(line: str) -> subprocess.CompletedProcess:
        shell = "sh", "-c", f'mount -t proc x /proc\n{line}\nexec "$@"', "sh"
        done = run_script(tmp_path, CORES_OF_RANKS, *NAMESPACES, *shell, cwd=folder)
        assert os.listdir(folder) == ["random.py"]
        return done

    return run


@pytest.mark.everything
@pytest.mark.parametrize("place", PLACES)
def test_ranks_meet_and_have_all_cores_with(place, somewhere):
    done = somewhere(f"ip link set lo up\n{PLACES[place]}")
    cores = [os.sched_getaffinity(0)] * 2
    assert (done.stdout, done.stderr) == (f"{cores}\n", "")


@pytest.mark.everything
def test_without_an_address_of_this_machine_ranks_say_so(somewhere):
    done = somewhere("true")
    assert "RankFailed: rank 0 raised ConnectionError: ranks meet at" in done.stderr


@needs_forkserver
def test_a_start_that_is_interrupted_says_nothing(tmp_path):
    program = """
        import os
        from sidebyside.ranks.forkserver import server
        server.ensure_running()
        result, work = server.connect_to_new_process([])
        os.close(work)
        os.read(result, 99)
    """
    done = run_script(tmp_path, program)
    assert (done.stderr, done.returncode) == ("", 0)


KILLED = """
    import os, re, signal, sys
    from pathlib import Path
    from sidebyside.ranks.launch import call_in_processes

    def work(rank, folder):
        Path(folder, str(os.getpid())).touch()
        if rank == 0:
            re.match("(a+)+$", "a" * 60 + "b")  # holds the GIL
        if os.fork() == 0:
            Path(folder, str(os.getpid())).touch()
        signal.pause()

    if __name__ == "__main__":
        folder = sys.argv[1]
        call_in_processes(work, [(rank, folder) for rank in range(2)], 500)
"""


def test_a_killed_script_leaves_neither_processes_nor_files(tmp_path, tmp_path_factory):
    script, pids = (tmp_path / name for name in ("script.py", "pids"))
    scratch = tmp_path_factory.mktemp("short")
    script.write_text(textwrap.dedent(KILLED))
    pids.mkdir()
    environment = os.environ | {"TMPDIR": str(scratch)}
    environment.pop("TORCHINDUCTOR_CACHE_DIR", None)
    caller = subprocess.Popen([sys.executable, script, pids], env=environment)
    wait_until(lambda: len(os.listdir(pids)) == 3)
    caller.kill()
    caller.wait()
    wait_until(lambda: not any(is_alive(int(p)) for p in os.listdir(pids)))
    wait_until(lambda: not os.listdir(scratch))
