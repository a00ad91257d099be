"""Every demo explains itself, refuses what is impossible, and runs from anywhere.

How a demo answers bad input is tried in one process: see answers_of_demo.py.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest

from lessons.source.where_next import demos_of_lesson
from sidebyside.course.lesson_format import lessons
from sidebyside.course.record import ROOT
from sidebyside.programs.arguments import (
    at_least,
    output_file,
    positive_float,
    positive_int,
)
from sidebyside.programs.run_demo import DEMOS, demo_names
from tests.forked_programs import ForkedPrograms
from tests.process_state import MARK, command_line, is_alive, marked, wait_until

NAMES = demo_names()
POOL = re.compile(r"\bPool\(|ProcessPoolExecutor\(|DataLoader\(")
SHOWN = ROOT / "resources/parallel_by_hand"  # a module there has its demo's name


def has_pool(name: str) -> bool:
    """The demo itself, or the module of the library that it shows."""
    files = [folder / name for folder in (DEMOS, SHOWN) if (folder / name).exists()]
    return any(POOL.search(file.read_text(encoding="utf-8")) for file in files)


WITH_POOL = [name for name in NAMES if has_pool(name)]
OF_LESSON = {lesson.number: demos_of_lesson(lesson, ROOT) for lesson in lessons()}
ANSWERS_OF_DEMO = Path(__file__).with_name("answers_of_demo.py")


def with_its_lessons(name: str) -> str:
    """The demo's name in a list of tests: `-k 11b` takes the demos of lesson 11b."""
    return " ".join([name, *(n for n, demos in OF_LESSON.items() if name in demos)])


@pytest.fixture(scope="session")
def programs():
    if not hasattr(os, "fork"):
        pytest.skip("forks programs")
    with ForkedPrograms() as programs:
        yield programs


def test_there_is_nothing_but_programs():
    """demos/<group>/<program>.py"""
    paths = sorted(path.relative_to(DEMOS) for path in DEMOS.rglob("*.py"))
    paths.remove(Path("__init__.py"))
    assert [path.as_posix() for path in paths] == NAMES
    for path in paths:
        text = (DEMOS / path).read_text(encoding="utf-8")
        assert 'if __name__ == "__main__":' in text, f"{path} belongs into the library"


@pytest.mark.parametrize("name", NAMES, ids=with_its_lessons)
def test_the_docstring_is_the_manual(name):
    """It names the demo as it is run."""
    text = (DEMOS / name).read_text(encoding="utf-8")
    manual = re.match(r'(?:#.*\n)*"""(.*?)"""', text, re.DOTALL)[1]
    places = [manual.index(f"\n{part}") for part in ("Run:", "Look for:", "Try:")]
    assert places == sorted(places)
    assert f"demos/{name}" in manual


@pytest.mark.everything
@pytest.mark.parametrize("name", NAMES, ids=with_its_lessons)
def test_help_and_bad_input_are_answered(name, tmp_path_factory, programs):
    folder, demo = tmp_path_factory.getbasetemp(), str(DEMOS / name)
    with programs.start(ANSWERS_OF_DEMO, demo, folder=folder) as program:
        found = program.communicate(120)
    assert (program.returncode, *found) == (0, "", "")


LITTLE = {  # work for demos that take long
    "capstone/train_text.py": ["--steps", "4", "--every", "2", "--write", "10"],
    "failures/checkpoint_interval.py": ["--real", "1"],
    "machines/compressed_gradients.py": ["--rate", "2000"],
    "machines/hierarchical_all_reduce.py": ["--megabytes", "0.5"],
    "machines/two_hosts.py": ["--rate", "2000"],
    "model_parallel/wavefront.py": ["--seconds", "0.01"],
    "overheads/how_many_workers.py": ["--pieces", "8", "--most", "4", "--rounds", "1"],
    "parameter_server/hogwild.py": ["--updates", "100"],
    "practice/accidents.py": ["--pool", "executor", "--patience", "0.5"],
    "races/lost_update.py": ["--updates", "1000", "--rounds", "1"],
    "sgd/gradient_noise.py": ["--target", "2"],
    "sgd/large_batch.py": ["--seeds", "2"],
}


RUN_BY_LESSONS = {  # both of its notebooks run it, and what it prints is compared
    name
    for lesson in lessons()
    for cell in lesson.code_cells
    for name in re.findall(r'\brun_demo\("(.+?)"', cell.source)
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.everything] * (name in RUN_BY_LESSONS))
        for name in NAMES
    ],
    ids=with_its_lessons,
)
def test_a_demo_runs_from_another_folder(name, tmp_path, request, pytestconfig):
    """With --everything as a person starts it; else forked, and it gets less work."""
    start, args = started_by_a_person, []
    if not pytestconfig.option.everything and hasattr(os, "fork"):
        start, args = request.getfixturevalue("programs").start, LITTLE.get(name, [])
    own = {MARK: uuid.uuid4().hex, "PYTHONUTF8": "1"}
    with start(DEMOS / name, *args, folder=tmp_path, **own) as program:
        out, err = program.communicate(timeout=400)
    assert program.returncode == 0, err
    assert out.strip()
    wait_until_all_have_ended(own[MARK], program.pid)


def started_by_a_person(path: Path, *args: str, folder: Path, **environment: str):
    return subprocess.Popen(
        [sys.executable, path, *args], cwd=folder, env=os.environ | environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        encoding="utf-8",
    )  # fmt: skip


def wait_until_all_have_ended(mark: str, session: int) -> None:
    """All with the mark, and all of the session.

    A forked process shows the environment that its server was started with.
    """
    wait_until(lambda: not marked(mark) and not any(map(is_alive, of_session(session))))


def of_session(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            if session == os.getsid(process.pid):
                found.append(process)
    return found


@pytest.fixture
def started(programs):
    """Start a demo without arguments; in the end all of it must be gone.

    A child that is killed while Python tries out its folder for temporary files leaves
    one there: the demo gets its own.
    """

    @contextlib.contextmanager
    def start(name: str, folder: Path):
        with tempfile.TemporaryDirectory() as temporary:
            own = {"TMPDIR": temporary, MARK: uuid.uuid4().hex}
            with programs.start(DEMOS / name, folder=folder, **own) as program:
                yield program, own[MARK]
            wait_until_all_have_ended(own[MARK], program.pid)

    return start


@pytest.mark.everything
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", NAMES, ids=with_its_lessons)
def test_an_interrupt_and_a_closed_pipe_end_a_demo_quietly(name, tmp_path, started):
    """After its first line; a demo that is through before that has ended well."""
    for how in signal.SIGINT, signal.SIGPIPE:
        with started(name, tmp_path) as (program, _):
            program.stdout.readline()
            if how == signal.SIGINT:
                program.interrupt()
            else:
                program.stdout.close()
            assert program.communicate(60)[1] == ""
        assert program.returncode in (0, -how)


@pytest.mark.everything
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", WITH_POOL, ids=with_its_lessons)
def test_a_killed_demo_leaves_no_worker_of_its_pool(name, tmp_path, started):
    """Killed when two workers have started; a resource tracker is none."""
    with started(name, tmp_path) as (program, mark):
        while program.poll() is None and len(workers(mark)) < 2:
            time.sleep(0.01)
        program.kill()


def workers(mark: str) -> list[str]:
    commands = map(command_line, marked(mark))
    return [c for c in commands if "spawn_main" in c or "loky.backend.popen" in c]


# The argument types -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "good", "bad", "allowed"),
    [
        (
            positive_int,
            ["1", "1_000", " 7 "],
            ["0", "-1", "x", "", "1.5", "1000000001"],
            "from 1 to 1,000,000,000",
        ),
        (at_least(2), ["2", "9"], ["1", "-2", "two"], "a whole number from 2 to"),
        (at_least(1, 8), ["1", "8"], ["0", "9", "9" * 5000], "from 1 to 8"),
        (
            positive_float,
            ["0.5", "2", "1e-3"],
            ["0", "-1", "x", "nan", "inf", "", "1e308", "1e-308"],
            "a number from 1e-06 to 1,000,000",
        ),
    ],
)
def test_numbers_are_taken_or_refused_with_what_is_allowed(type_, good, bad, allowed):
    assert all(type_(text) == float(text.replace("_", "")) for text in good)
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=allowed) as error:
            type_(text)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 120


def test_a_file_to_write_is_tried_and_a_link_is_followed(tmp_path):
    path, link = tmp_path / "a.png", tmp_path / "link"
    link.symlink_to(path)
    assert [str(output_file(str(name))) for name in (path, link)] == [str(path)] * 2
    assert os.listdir(tmp_path) == ["link"]
    for name in "", tmp_path, tmp_path / "missing" / "a", "a" * 300, os.devnull:
        with pytest.raises(argparse.ArgumentTypeError):
            output_file(str(name))
