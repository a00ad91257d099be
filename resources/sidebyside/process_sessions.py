"""End everything that a process has started, however that process itself ended.

A process that calls `os.setsid()` leads a session, and all that it starts, and all
that these start, belongs to the session. Each rank leads one. Whoever has started the
rank ends the session with it; and should that process be killed, its keeper does, a
small program that it started for this. Ranks are entered in a file, the register, as
they may start ranks in their turn: a line "1 2" says that 1 started rank 2, a line
"2" that the session of 2 has been ended.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.util import Finalize

from sidebyside.scratch import open_scratch_to_append, scratch_file

CAN_LEAD = hasattr(os, "setsid")  # not on Windows

_inherited = ""  # the register in which this process itself was entered
_keeper = None


class SessionKeeper:
    """Reads the register and, when this process has ended, ends what it finds there."""

    def __init__(self):
        self.owner = os.getpid()
        self.file, self.register = scratch_file()
        command = [sys.executable, "-P", "-m", "sidebyside.process_sessions"]
        self.process = subprocess.Popen(
            [*command, str(self.file.fileno()), str(self.owner)],
            pass_fds=[self.file.fileno()],
            stdin=subprocess.PIPE,  # closes when this process ends, in whatever way
            start_new_session=True,
        )
        Finalize(None, self.stop, exitpriority=-100)

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.file.close()

    def serves(self) -> bool:
        """False when it was killed, or in a process forked from the one it serves."""
        return self.owner == os.getpid() and self.process.poll() is None


def open_session_register() -> str:
    """The file in which the ranks of this process are to be entered."""
    global _keeper
    if not CAN_LEAD or _inherited:
        return _inherited
    if _keeper is None or not _keeper.serves():
        _keeper = SessionKeeper()
    return _keeper.register


def lead_session(register: str, owner: int) -> None:
    """Make this process, started by `owner`, the leader of a session of its own."""
    global _inherited
    if register:
        os.setsid()
        _inherited = register
        _enter_session(register, f"{owner} {os.getpid()}")


def end_sessions(register: str, leaders: set[int]) -> None:
    """Kill every process of these sessions, and of those begun by their processes."""
    if register and leaders:
        _kill_session_members(
            lambda: _with_sessions_of_descendants(
                leaders, _sessions_entered(_read_sessions(register))
            )
        )
        ended = _with_sessions_of_descendants(
            leaders, _sessions_entered(_read_sessions(register))
        )
        _enter_session(register, "\n".join(map(str, ended)))


def _enter_session(register: str, line: str) -> None:
    with contextlib.suppress(OSError):  # the process that keeps it is gone
        handle = open_scratch_to_append(register)
        os.write(handle, f"{line}\n".encode())
        os.close(handle)


def _read_sessions(register: str) -> bytes:
    with contextlib.suppress(OSError), open(register, "rb") as file:
        return file.read()
    return b""


def _sessions_entered(register: bytes) -> dict[int, int]:
    """Who has started it, for each leader of a session that has not been ended."""
    owners = {}
    for line in register.decode().splitlines():
        *owner, leader = map(int, line.split())
        if owner:
            owners[leader] = owner[0]
        else:
            owners.pop(leader, None)
    return owners


def _with_sessions_of_descendants(
    leaders: set[int], owners: dict[int, int]
) -> set[int]:
    while more := {rank for rank in owners if owners[rank] in leaders} - leaders:
        leaders = leaders | more
    return leaders


def end_session(leader: int) -> None:
    """Kill every process of the session that `leader` leads or has led."""
    _kill_session_members(lambda: {leader})


def _kill_session_members(find_leaders: Callable[[], set[int]]) -> None:
    """A resource tracker is spared: it ends by itself once the others have ended, and
    then removes the shared memory that they have left.
    """
    for _ in range(300):  # those being started right now are found in the next round
        members = [p for p in _session_members(find_leaders()) if not _is_tracker(p)]
        if not members:
            return
        for pid in members:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        select.select([], [], [], 0.01)


def _session_members(leaders: set[int]) -> list[int]:
    import psutil

    members = []
    for pid in psutil.pids() if leaders else []:
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) in leaders:
                status = psutil.Process(pid).status()
                members += [pid] if status != psutil.STATUS_ZOMBIE else []
    return members


def _is_tracker(pid: int) -> bool:
    import psutil

    with contextlib.suppress(OSError, psutil.Error):
        return any("resource_tracker" in part for part in psutil.Process(pid).cmdline())
    return False


def _keep_sessions(register: int, owner: int) -> None:
    """Wait until the process that started this one has ended, then end its ranks."""
    while os.getppid() == owner:
        if select.select([sys.stdin], [], [], 0.5)[0]:
            break
    size = os.fstat(register).st_size
    _kill_session_members(lambda: set(_sessions_entered(os.pread(register, size, 0))))


if __name__ == "__main__":
    _keep_sessions(*map(int, sys.argv[1:]))
