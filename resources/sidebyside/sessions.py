"""End everything that a process has started, however that process itself ended.

A process that calls `os.setsid()` leads a session, and all that it starts, and all
that these start, belongs to the session. `keep_watch` starts a small keeper, a
program of its own, that ends the whole session when its leader has ended, when its
time is over, or when the process that asked for the keeper is gone, even by a kill.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from sidebyside.scratch import open_to_append, scratch_file

CAN_LEAD = hasattr(os, "setsid")  # not on Windows


@contextlib.contextmanager
def keep_watch(seconds: float) -> Iterator[str]:
    """`with keep_watch(60) as path:` start a process that calls `lead_session(path)`.

    When the block has ended, so has all that this process has started; after
    `seconds` it ends in any case.
    """
    if not CAN_LEAD:
        yield ""
        return
    leaders, path = scratch_file()
    command = [sys.executable, "-P", "-m", "sidebyside.sessions"]
    keeper = subprocess.Popen(
        [*command, str(leaders.fileno()), str(seconds)],
        pass_fds=[leaders.fileno()],
        stdin=subprocess.PIPE,  # closes when this process ends, in whatever way
        start_new_session=True,
    )
    try:
        yield path
    finally:
        keeper.stdin.close()
        keeper.wait()
        leaders.close()


def lead_session(path: str) -> None:
    """Make this process the leader of a session that the keeper of `path` ends."""
    if path:
        os.setsid()
        handle = open_to_append(path)
        os.write(handle, f"{os.getpid()}\n".encode())
        os.close(handle)


def end_session(leader: int) -> None:
    """Kill every process of the session that `leader` leads or has led.

    A resource tracker is spared: it ends by itself once the others have ended, and
    then removes the shared memory that they have left.
    """
    for _ in range(20):  # those being started right now are found in the next round
        members = [pid for pid in _session_members(leader) if not _is_tracker(pid)]
        if not members:
            return
        for pid in members:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        select.select([], [], [], 0.01)


def _session_members(leader: int) -> list[int]:
    import psutil

    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) == leader:
                status = psutil.Process(pid).status()
                members += [pid] if status != psutil.STATUS_ZOMBIE else []
    return members


def _is_tracker(pid: int) -> bool:
    import psutil

    with contextlib.suppress(OSError, psutil.Error):
        return any("resource_tracker" in part for part in psutil.Process(pid).cmdline())
    return False


def _keeper(leaders: int, seconds: float) -> None:
    """Wait for the end of the pipe, the leader or the time; then end the session."""
    leader, deadline = None, time.monotonic() + seconds
    while time.monotonic() < deadline:
        gone = select.select([sys.stdin], [], [], 0.05)[0]
        leader = int(os.pread(leaders, 20, 0) or 0)
        if gone or (leader and not _runs(leader)):
            break
    if leader:
        end_session(leader)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    _keeper(int(sys.argv[1]), float(sys.argv[2]))
