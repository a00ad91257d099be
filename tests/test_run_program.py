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
import threading
import time
import uuid
from multiprocessing import get_context
from multiprocessing.synchronize import sem_unlink
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

HEAD = """
import multiprocessing, os, sys, tempfile, threading, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from sidebyside import run_program
from sidebyside.programs import end_with_parent

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
    "it waits": """
def main():
    ready()
    time.sleep(600)
""",
    "it has temporary files": """
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
    "it waits for its thread": """
def main():
    thread = threading.Thread(target=work, args=(600,))
    thread.start()
    ready()
    thread.join()
""",
    "its thread prints": """
def tell():
    while True:
        print("still here")
        time.sleep(0.01)

def main():
    ready()
    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()
""",
    "its process waits": """
def main():
    child = get_context("spawn").Process(target=work, args=(600,))
    child.start()
    ready()
    child.join()
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
    "its executor works": """
def main():
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(work, [0, 0]))
        ready()
        list(pool.map(work, [600] * 9))
""",
    "its process forks all the time": """
def fork_on():
    print("ready", flush=True)
    for _ in range(300):
        if os.fork() == 0:
            break
        time.sleep(0.001)
    time.sleep(600)

def main():
    child = get_context("spawn").Process(target=fork_on)
    child.start()
    child.join()
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
    environment = {"MARK_OF_A_PROGRAM": mark, "TMPDIR": str(temporary)}
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


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("MARK_OF_A_PROGRAM") == mark:
                found += [process] if process.status() != "zombie" else []
    return found


def nothing_is_left(mark: str, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while marked(mark) or list(temporary_folder(mark).iterdir()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_ctrl_c_ends_it(program, tmp_path):
    with running(tmp_path, program) as (started, mark):
        os.killpg(started.pid, signal.SIGINT)  # as a terminal does: to the group
        said, complaints = started.communicate(timeout=30)
        assert (started.returncode, complaints) == (-signal.SIGINT, "")
        assert set(said.splitlines()) <= {"still here"}
        assert nothing_is_left(mark)


INTERRUPTED = """
import os, signal
from sidebyside import forkserver_apart, run_ranks

usual, started = forkserver_apart._usual_spawn, []

WAIT = (
    "import signal, time\\n"
    "while signal.SIGINT not in signal.sigpending(): time.sleep(0.01)\\n"
)

def start_and_interrupt(path, args, passfds):
    program = args.index("-c") + 1  # the interrupt comes before it has a session
    args = [*args[:program], WAIT + args[program], *args[program + 1 :]]
    started.append(usual(path, args, passfds))
    os.kill(started[-1], signal.SIGINT)
    return started[-1]

forkserver_apart._usual_spawn = start_and_interrupt

if __name__ == "__main__":
    print(run_ranks(abs, -3, world_size=2), len(started) > 1)
"""


def test_an_interrupt_does_not_reach_a_server_that_has_no_session_yet(tmp_path):
    path = tmp_path / "interrupted.py"
    path.write_text(INTERRUPTED)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[3, 3] True\n", "")


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_ends_when_nobody_reads_any_more(program, tmp_path):
    with running(tmp_path, program) as (started, mark):
        started.stdout.close()
        complaints = started.stderr.read()
        assert started.wait(timeout=30) == -signal.SIGPIPE
        assert complaints == ""
        assert nothing_is_left(mark)


def test_an_alarm_while_a_broken_pipe_is_looked_at_changes_nothing(tmp_path):
    program = """
import signal

def main():
    from sidebyside import programs

    usual, asked = programs._nobody_reads_program, []

    def alarm_and_ask():
        if not asked:
            asked.append("once")
            os.kill(os.getpid(), signal.SIGALRM)
        return usual()

    programs._look_for_reader_of_program_in(0)
    ready()
    while not usual():
        time.sleep(0.01)
    programs._nobody_reads_program = alarm_and_ask
    raise BrokenPipeError
"""
    with running(tmp_path, program) as (started, mark):
        started.stdout.close()
        complaints = started.stderr.read()
        assert (started.wait(timeout=30), complaints) == (-signal.SIGPIPE, "")
        assert nothing_is_left(mark)


@pytest.mark.parametrize("tasks", [[], [600] * 9], ids=["waiting", "at work"])
def test_a_pool_of_killed_workers_needs_no_moment_to_end(tasks, tmp_path):
    program = f"""
def main():
    from sidebyside import programs

    programs.SECONDS = 600
    with get_context("spawn").Pool(2) as pool:
        pool.map(work, [0, 0])
        ready()
        pool.map(work, {tasks})
        time.sleep(600)
"""
    with running(tmp_path, program) as (started, mark):
        os.killpg(started.pid, signal.SIGINT)
        assert started.communicate(timeout=60) == ("", "")
        assert started.returncode == -signal.SIGINT
        assert nothing_is_left(mark)


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


def test_a_demo_collects_garbage_from_its_main_on(tmp_path):
    path = tmp_path / "demo.py"
    path.write_text("""
import gc
import os
from sidebyside import programs

programs.DEMOS = os.path.dirname(os.path.realpath(__file__))
programs._import_quietly_and_without_delay()
print(gc.isenabled())
programs.run_program(lambda: print(gc.isenabled(), gc.get_freeze_count() > 0))
""")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\nTrue True\n", "")


@pytest.mark.parametrize("end", ["return", "sys.exit(0)"])
def test_the_feeder_of_a_queue_tidies_up_before_the_program_ends(end, tmp_path):
    program = f"""
def tidy():
    time.sleep(0.2)
    print("tidied")

def main():
    from sidebyside import programs

    programs.FEEDER_SECONDS = 60
    threading.Thread(target=tidy, name="QueueFeederThread", daemon=True).start()
    ready()
    {end}
"""
    with running(tmp_path, program) as (started, _):
        assert started.communicate(timeout=30) == ("tidied\n", "")


def test_the_threads_that_feed_queues_have_the_name_that_we_wait_for():
    queue = get_context("spawn").Queue()
    queue.put(1)
    assert "QueueFeederThread" in [thread.name for thread in threading.enumerate()]
    assert queue.get(timeout=30) == 1
    queue.close()
    queue.join_thread()


def test_an_alarm_on_its_way_does_not_cut_the_last_word(tmp_path):
    program = """
import signal

def main():
    both = {signal.SIGINT, signal.SIGALRM}
    signal.pthread_sigmask(signal.SIG_BLOCK, both)
    for one in both:
        os.kill(os.getpid(), one)
    try:
        ready()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
        time.sleep(600)
    except KeyboardInterrupt:
        print("saved")
"""
    with running(tmp_path, program) as (started, _):
        said, complaints = started.communicate(timeout=30)
    assert (started.returncode, said, complaints) == (-signal.SIGINT, "saved\n", "")


def test_a_semaphore_that_is_being_made_is_removed_and_the_next_one_is_made(tmp_path):
    program = """
from multiprocessing import resource_tracker

def register(name, kind, usual=resource_tracker.register):
    print(name)
    os.kill(os.getpid(), 2)
    usual(name, kind)

def main():
    ready()
    usual, resource_tracker.register = resource_tracker.register, register
    try:
        get_context("spawn").Lock()
    except KeyboardInterrupt:
        resource_tracker.register = usual
        get_context("spawn").Lock()
        print("saved")
"""
    with running(tmp_path, program) as (started, mark):
        said, complaints = started.communicate(timeout=30)
        name, last_word = said.splitlines()
        assert (last_word, complaints) == ("saved", "")
        assert started.returncode == -signal.SIGINT
        assert nothing_is_left(mark)
    with pytest.raises(FileNotFoundError):
        sem_unlink(name)


DEAF = {
    "it goes on for ever": """
def main():
    ready()
    try:
        time.sleep(600)
    finally:
        time.sleep(600)
""",
    "it starts another process": """
def main():
    try:
        ready()
        time.sleep(600)
    except KeyboardInterrupt:
        child = get_context("spawn").Process(target=work, args=(600,))
        child.start()
        child.join()
""",
    "it does not end at exit": """
import atexit

def main():
    atexit.register(work, 600)
    ready()
    time.sleep(600)
""",
}


@pytest.mark.parametrize("program", DEAF.values(), ids=DEAF)
def test_a_main_that_does_not_end_is_ended(program, tmp_path):
    with running(tmp_path, program) as (started, mark):
        os.killpg(started.pid, signal.SIGINT)
        assert started.communicate(timeout=30)[1] == ""
        assert started.returncode == -signal.SIGINT
        assert nothing_is_left(mark)


def test_a_killed_program_leaves_no_worker_that_watches_its_parent(tmp_path):
    program = """
def main():
    with get_context("spawn").Pool(2, end_with_parent) as pool:
        pool.map(work, [0, 0])
        ready()
        time.sleep(600)
"""
    with running(tmp_path, program) as (started, mark):
        started.kill()
        started.communicate(timeout=30)
        assert nothing_is_left(mark)


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
