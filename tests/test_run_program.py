"""Ctrl-C and a closed pipe end a program quietly, with all that it has started.

Each program here says that it is ready, and then would go on for ever. It gets a folder
of its own for temporary files, which must be empty afterwards.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import uuid
from pathlib import Path

import pytest

from sidebyside.programs.run_program import _makes_semaphore
from tests.process_state import MARK, marked, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

HEAD = """
import atexit, os, sys, tempfile, threading, time
from multiprocessing import get_context

from sidebyside import run_program
from sidebyside.programs import run_program as programs

def work(seconds):
    time.sleep(seconds)

def ready():
    print("ready")
"""
FOOT = """
if __name__ == "__main__":
    run_program(main)
"""
PROGRAMS = {
    "it has files": """
def main():
    with tempfile.TemporaryDirectory():
        ready()
        time.sleep(600)
""",
    "its thread waits": """
def main():
    threading.Thread(target=work, args=(600,)).start()
    ready()
""",
    "its forked process waits": """
def main():
    child = get_context("forkserver").Process(target=work, args=(600,))
    child.start()
    ready()
    child.join()
""",
    "its pool works": """
def main():
    with get_context("spawn").Pool(2) as pool:
        pool.map(work, [0, 0])
        ready()
        pool.map(work, [600] * 9)
""",
    "it has ended but for an exit function": """
began = []

def tidy():
    if began:
        raise RuntimeError("while it tidies up, it is asked to once more")
    began.append(True)
    ready()
    time.sleep(600)

def main():
    atexit.register(tidy)
""",
    "its ranks work": """
def main():
    from sidebyside import run_ranks

    ready()
    run_ranks(work, 600, timeout=600)
""",
}


@contextlib.contextmanager
def running(folder: Path, program: str):
    """The planted program, which has said that it is ready; and its mark."""
    path, mark = folder / "planted.py", uuid.uuid4().hex
    path.write_text(HEAD + program + FOOT, encoding="utf-8")
    temporary = temporary_folder(mark)
    temporary.mkdir()
    environment = {MARK: mark, "TMPDIR": str(temporary)}
    started = subprocess.Popen(
        [sys.executable, str(path)], stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env=os.environ | environment,
    )  # fmt: skip
    try:
        assert first_line(started) == "ready\n", started.stderr.read()
        yield started, mark
    finally:
        for process in marked(mark):
            process.kill()
        started.communicate()
        shutil.rmtree(temporary)


def first_line(program: subprocess.Popen) -> str:
    """And no more than this: `communicate` would not see what has been read."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(program.stdout.fileno(), 1)):
        line += byte
    return line.decode()


def temporary_folder(mark: str) -> Path:
    """A short name: the forkserver's socket is made in it."""
    return Path(tempfile.gettempdir(), mark[:8])


def wait_until_nothing_is_left(mark: str) -> None:
    wait_until(lambda: not marked(mark) and not os.listdir(temporary_folder(mark)))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_ctrl_c_ends_it(program, tmp_path):
    with running(tmp_path, program) as (started, mark):
        os.killpg(started.pid, signal.SIGINT)  # as a terminal does: to the group
        said, complaints = started.communicate(timeout=30)
        assert (started.returncode, complaints) == (-signal.SIGINT, "")
        assert said == ""
        wait_until_nothing_is_left(mark)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_ends_when_nobody_reads_any_more(program, tmp_path):
    with running(tmp_path, program) as (started, mark):
        started.stdout.close()
        complaints = started.stderr.read()
        assert started.wait(timeout=30) == -signal.SIGPIPE
        assert complaints == ""
        wait_until_nothing_is_left(mark)


def test_a_semaphore_is_made_known_before_the_program_ends(tmp_path):
    program = """
def main():
    from multiprocessing import resource_tracker

    def register(name, kind, known=resource_tracker.register):
        ready()
        print(name, flush=True)
        time.sleep(0.5)
        known(name, kind)

    resource_tracker.register = register
    get_context("spawn").Lock()
    time.sleep(600)
"""
    with running(tmp_path, program) as (started, mark):
        os.killpg(started.pid, signal.SIGINT)
        name = started.communicate(timeout=30)[0].strip()
        assert name.startswith("/mp-")
        wait_until(lambda: not Path("/dev/shm", f"sem.{name[1:]}").exists())
        wait_until_nothing_is_left(mark)


def test_a_main_may_have_a_last_word(tmp_path):
    program = """
def main():
    try:
        ready()
        time.sleep(600)
    except KeyboardInterrupt:
        print("saved")
"""
    with running(tmp_path, program) as (started, _):
        os.killpg(started.pid, signal.SIGINT)
        said, complaints = started.communicate(timeout=30)
    assert (started.returncode, said, complaints) == (-signal.SIGINT, "saved\n", "")


IN_A_HOST = """
import signal, sys
from sidebyside import run_program

before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGALRM)]
run_program(lambda: print("here") or 3)
print([signal.getsignal(one) for one in (signal.SIGINT, signal.SIGALRM)] == before)
"""


@pytest.mark.parametrize("words", [["-c", "import sys; sys.ps1 = ''"], ["-ic", ""]])
def test_in_a_notebook_or_python_i_it_calls_main_and_changes_nothing(words):
    command = [sys.executable, words[0], words[1] + IN_A_HOST]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
    assert (done.stdout, b"Error" in done.stderr) == (b"here\nTrue\n", False)


def test_a_main_that_does_not_end_is_ended(tmp_path):
    program = """
programs.SECONDS = 1

def main():
    ready()
    try:
        time.sleep(600)
    finally:
        time.sleep(600)
"""
    with running(tmp_path, program) as (started, mark):
        os.killpg(started.pid, signal.SIGINT)
        assert started.communicate(timeout=30)[1] == ""
        assert started.returncode == -signal.SIGINT
        wait_until_nothing_is_left(mark)


@pytest.mark.parametrize(
    ("body", "status", "complaint"),
    [
        ("return 3", 3, ""),
        ("sys.exit('sorry')", 1, "sorry"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("ours, theirs = os.pipe(); os.close(ours); os.write(theirs, b'x')",
         1, "BrokenPipeError"),
    ],
)  # fmt: skip
def test_other_ends_are_as_usual(body, status, complaint, tmp_path):
    with running(tmp_path, f"def main():\n    ready()\n    {body}\n") as (started, _):
        complaints = started.communicate(timeout=30)[1]
    assert started.returncode == status
    assert complaint in complaints and bool(complaint) == bool(complaints)


def test_a_look_for_ctrl_c_while_locks_are_half_imported_does_no_harm(monkeypatch):
    half = types.ModuleType("multiprocessing.synchronize")
    monkeypatch.setitem(sys.modules, half.__name__, half)
    assert not _makes_semaphore(sys._getframe())
