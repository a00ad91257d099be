"""End whatever a process has started, however that process itself ended.

A process that calls `os.setsid()` leads a group, and all that it starts, and all that
these start, belongs to the group. Each rank leads one, and so does a demo.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from multiprocessing import util

POSIX = os.name == "posix"
PATIENCE = 0.2  # seconds that processes get to end after SIGTERM


def lead_group() -> None:
    if POSIX and os.getpgrp() != os.getpid():
        os.setsid()


def end_own_group() -> None:
    """End this process at once, with all that it has started."""
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
        if "--multiprocessing-fork" not in args:  # no process of the learner's
            program = args.index("-c") + 1
            args = [*args]
            args[program] = f"import os; os.setsid(); {args[program]}"
        return usual(path, args, passfds)

    util.spawnv_passfds = spawn
