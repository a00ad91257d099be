"""End whatever a process has started, however that process itself ended.

A process that calls `os.setsid()` leads a group, and all that it starts, and all that
these start, belongs to the group. Each rank leads one, and so does a demo. A process
that has left the group for a session of its own is found on Linux: as a descendant or,
once its rank has died, as a child of the forkserver. There a mere fork looks like a
rank, and lives as long as the forkserver. What a rank leaves that was started by spawn
is not found.
"""

import contextlib
import ctypes
import glob
import os
import signal
import sys
import time
from collections.abc import Iterable
from multiprocessing import util
from pathlib import Path

POSIX = os.name == "posix"
PATIENCE = 0.2  # seconds that processes get to end after SIGTERM


def lead_group() -> None:
    if POSIX and os.getpgrp() != os.getpid():
        os.setsid()


def inherit_orphans() -> None:
    """On Linux, become the parent of descendants whose own has died."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def _children(pid: int) -> set[int]:
    found = set()
    for children in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            found |= set(map(int, Path(children).read_text().split()))
    return found


def descendants(pid: int) -> set[int]:
    """What this process has started, and what these have started."""
    found = _children(pid)
    return found.union(*map(descendants, found))


def end_orphans(server: int) -> None:
    """End the programs that ranks of this forkserver have left when they died."""
    for child in _children(server):
        with contextlib.suppress(OSError):
            its = Path(f"/proc/{child}/cmdline").read_bytes()
            ours = Path(f"/proc/{server}/cmdline").read_bytes()
            if its not in (b"", ours):  # neither a zombie nor a rank
                end_processes({child} | descendants(child))


def end_processes(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended
            os.kill(pid, signal.SIGKILL)


def end_own_group() -> None:
    """End this process at once, with all that it has started."""
    end_processes(descendants(os.getpid()))
    if POSIX:
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def end_groups(leaders: Iterable[int]) -> None:
    """End every process of the groups that these lead or have led.

    SIGTERM comes first: a resource tracker ignores it, ends by itself once the others
    have ended, and removes the shared memory that they have left.
    """
    for leader in leaders if POSIX else ():
        deadline = time.monotonic() + PATIENCE
        with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left
            os.killpg(leader, signal.SIGTERM)
            while time.monotonic() < deadline:
                os.killpg(leader, 0)
                time.sleep(0.002)
            os.killpg(leader, signal.SIGKILL)


def keep_servants_apart() -> None:
    """In a notebook's kernel, what multiprocessing starts for itself leads a group.

    A kernel that is shut down ends its own group, and would wait in vain: for the
    resource tracker, which ignores that, and for a forkserver that nobody buries. In a
    script nothing is changed.
    """
    usual = util.spawnv_passfds

    def spawn(path, args, passfds):
        args = [os.fsdecode(arg) for arg in args]  # joblib before 1.6 gives bytes
        if "--multiprocessing-fork" not in args:  # no process of the learner's
            program = args.index("-c") + 1
            args[program] = f"import os; os.setsid(); {args[program]}"
        return usual(path, args, passfds)

    util.spawnv_passfds = spawn
