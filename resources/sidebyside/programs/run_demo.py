"""Run a demo from a notebook as a person would from a terminal."""

import contextlib
import difflib
import os
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path

from sidebyside.course.record import ROOT
from sidebyside.programs.passing import seconds_counted

DEMOS = ROOT / "demos"
SECONDS_TO_END = 2  # that an interrupted demo has to end by itself


class DemoFailed(RuntimeError):
    """A demo ended with an error; `.status` is its exit status."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status


def run_demo(path: str, *args: object) -> None:
    """Run `demos/<path>` with this kernel's own Python and show what it prints.

    `run_demo("gil/threads.py", "--workers", 2)`. The demo gets no input and runs in
    the current folder. Interrupting the cell stops it together with everything it
    has started; so does the end of the kernel. Raises DemoFailed if it fails.
    """
    script = _script_of_demo(path)
    program = Path(__file__).with_name("demo_keeper.py")
    keeper = subprocess.Popen(
        [sys.executable, "-P", program, script, *map(str, args)],
        stdin=subprocess.PIPE,  # closes when this process ends, in whatever way
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment_of_demo(),
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # an interrupt of the kernel reaches it through us
    )
    last_lines: deque[str] = deque(maxlen=10)
    try:
        with seconds_counted(f"demos/{path}"):
            for line in keeper.stdout:  # pyright: ignore[reportOptionalIterable]  a pipe
                print(line, end="", flush=True)
                last_lines.append(line)
            status = keeper.wait()
    finally:
        _end_demo(keeper)
    if status:
        said = "".join(last_lines).rstrip() or "(nothing)"
        raise DemoFailed(
            f"demos/{path} {_how_demo_ended(status)}; the last it said was\n{said}",
            status,
        )


def _end_demo(keeper: subprocess.Popen) -> None:
    """Interrupt the demo, give it a moment to end by itself, then have it killed."""
    if keeper.poll() is None:
        with contextlib.suppress(OSError):
            keeper.stdin.write("interrupt\n")
            keeper.stdin.flush()
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.wait(timeout=SECONDS_TO_END)
    with contextlib.suppress(OSError):
        keeper.stdin.close()  # the sign to kill what is left
    keeper.wait()
    keeper.stdout.close()


def demo_names() -> list[str]:
    """Every demo, such as "gil/threads.py"."""
    return sorted(file.relative_to(DEMOS).as_posix() for file in DEMOS.glob("*/*.py"))


def _script_of_demo(path: str) -> Path:
    """The demo's file; an unknown name is answered with names that are near."""
    names = demo_names()
    if path in names:
        return DEMOS / path
    near = difflib.get_close_matches(str(path), names)
    either = '" or "'.join(near)
    hint = f'Did you mean "{either}"?' if near else "They lie in the folder demos."
    raise ValueError(f'run_demo(path): there is no demo "{path}". {hint}')


def _environment_of_demo() -> dict[str, str]:
    """This process's environment, with what a terminal would have instead."""
    environment = dict(os.environ, PYTHONUTF8="1", PYTHONUNBUFFERED="1")
    if environment.get("MPLBACKEND", "").startswith("module://"):
        del environment["MPLBACKEND"]  # figures go to files, not into the notebook
    return environment


def _how_demo_ended(status: int) -> str:
    if status > 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
