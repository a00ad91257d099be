"""Whether a process runs, asked while it may be ending; and waiting for its end."""

import time
from collections.abc import Callable

import psutil


def is_alive(process: psutil.Process | int) -> bool:
    """Takes a process or its number. A zombie has ended."""
    try:
        if isinstance(process, int):
            process = psutil.Process(process)
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command_line(process: psutil.Process) -> str:
    """Its words; none when it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # psutil counts a zombie as one
        return ""


def wait_until(holds: Callable[[], object]) -> None:
    """Ask again and again; the limit is for a machine that is very busy."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
