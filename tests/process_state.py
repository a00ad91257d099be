"""Programs that tests start: what they print, whether they run, how they end."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

# As a person starts it; it is given no name that has to be looked up.
TORCHRUN = "-m", "torch.distributed.run", "--local-addr", "127.0.0.1"


def is_alive(process: psutil.Process | int) -> bool:
    """Takes a process or its number. A zombie has ended."""
    try:
        if isinstance(process, int):
            process = psutil.Process(process)
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


MARK = "MARK_OF_A_TEST"  # a variable: what a program starts inherits it


def marked(mark: str, variable: str = MARK) -> list[psutil.Process]:
    """The processes with this mark that are alive."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(variable) == mark and is_alive(process):
                found.append(process)
    return found


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


def said_by(*command: object, **environment: str) -> str:
    """What Python prints, started with this command line."""
    words = [sys.executable, *map(str, command)]
    env = os.environ | environment
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
