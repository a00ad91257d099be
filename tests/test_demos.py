"""Every demo explains itself, refuses what is impossible, and runs from anywhere.

How a demo answers bad input is tried in one process: the demo is loaded once and its
`main` is called with one command line after the other, while nothing may be started.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from functools import cache
from pathlib import Path

import psutil
import pytest

from demos.ddp import own_ddp
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
BAD = ["0", "-1", "x"]  # refused, unless the option's type allows it on purpose
ABSURD = ["", "nan", "inf", "-inf", "1e308", "-1e308", str(10**30), str(-(10**30))]
ABSURD += ["9" * 5000]  # refused in any case


def with_its_lessons(name: str) -> str:
    """The demo's name in a list of tests: `-k 11b` takes the demos of lesson 11b."""
    return " ".join([name, *(n for n, demos in OF_LESSON.items() if name in demos)])


@cache
def answers(path: Path, folder: Path, programs: ForkedPrograms) -> dict:
    """What `main` of the demo answers to --help, to nonsense and to bad numbers."""
    values = [*BAD, "absurd", *ABSURD]
    with programs.start(ANSWERS_OF_DEMO, str(path), *values, folder=folder) as program:
        out, err = program.communicate(120)
    assert program.returncode == 0, err
    return json.loads(out)


@pytest.fixture(scope="session")
def programs():
    if not hasattr(os, "fork"):
        pytest.skip("forks programs")
    with ForkedPrograms() as programs:
        yield programs


def folder_complaints(demos: Path) -> list[str]:
    """Programs only, demos/<group>/<program>.py; no name twice."""
    complaints = []
    paths = sorted(path.relative_to(demos) for path in demos.rglob("*.py"))
    paths.remove(Path("__init__.py"))
    for path in paths:
        text = (demos / path).read_text(encoding="utf-8")
        if len(path.parts) != 2:
            complaints.append(f"{path} is in no folder of demos, or deeper in one")
        if 'if __name__ == "__main__":' not in text:
            complaints.append(f"{path} is no program: it belongs into the library")
    names = [path.name for path in paths]
    complaints += [f"{name} is there twice" for name in names if names.count(name) > 1]
    return complaints


def manual_complaints(path: Path) -> list[str]:
    """The docstring is the manual, and names the demo as it is run."""
    text = path.read_text(encoding="utf-8")
    manual = re.match(r'(?:#.*\n)*"""(.*?)"""', text, re.DOTALL)
    if not manual:
        return ["it does not begin with a docstring"]
    parts = ["Run:", "Look for:", "Try:"]
    places = [manual[1].find(f"\n{part}") for part in parts]
    found = [
        f"{part} is not in its docstring"
        for part, place in zip(parts, places, strict=True)
        if place < 0
    ]
    if not found and places != sorted(places):
        found.append("Run:, Look for:, Try: are not in this order")
    own_name = "/".join(("demos", *path.parts[-2:]))
    if own_name not in manual[1]:
        found.append(f"its docstring does not say how to run {own_name}")
    return found


def answer_complaints(path: Path, folder: Path, programs: ForkedPrograms) -> list[str]:
    """--help shows the manual; bad input ends with status 2 and one clear line."""
    found = answers(path, folder, programs)
    help_, unknown = found["help"], found["unknown"]
    complaints = []
    if help_["status"] != 0 or help_["err"]:
        complaints.append(f"--help ends with {help_['status']} {help_['err']}")
    manual = path.read_text(encoding="utf-8").split('"""')[1]
    if manual.strip() not in help_["out"]:
        complaints.append("--help does not show the whole docstring as it is written")
    complaints += _refusal_complaints(unknown, "--no-such-option")
    for call in found["bad"]:
        complaints += _refusal_complaints(
            call, (*call["arguments"][:-1], "argument")[0]
        )
    return complaints


def _refusal_complaints(call: dict, must_name: str) -> list[str]:
    """Exit status 2, nothing started, one line that names the option."""
    command = " ".join(call["arguments"])
    if call["status"] != 2 or call["started"]:
        ended = f"status {call['status']}, started {call['started'] or 'nothing'}"
        return [f"{command} is not refused: {ended}"]
    message = re.sub(r"\A(usage:.*\n)(\s+.*\n)*", "", call["err"])
    complaints = []
    if message.count("\n") != 1 or call["out"]:
        complaints.append(f"{command} is not answered by one line: {call['err']}")
    if must_name not in message:
        complaints.append(f"the answer to {command} does not name it: {message}")
    if re.search(r"invalid \w+ value", message):
        complaints.append(f"{command} is not told what is allowed: {message}")
    return complaints


def started_by_a_person(path: Path, *args: str, folder: Path, **environment: str):
    return subprocess.Popen(
        [sys.executable, path, *args], cwd=folder, env=os.environ | environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        encoding="utf-8",
    )  # fmt: skip


def run_complaints(
    path: Path, folder: Path, *args: str, start=started_by_a_person
) -> list[str]:
    """It ends well, says something and leaves no process."""
    mark = uuid.uuid4().hex
    own = {"SIDEBYSIDE_DEMO": mark, "PYTHONUTF8": "1"}
    with start(path, *args, folder=folder, **own) as program:
        out, err = program.communicate(timeout=400)
    found = []
    if program.returncode != 0:
        found.append(f"it ends with status {program.returncode}: {err[-2000:]}")
    if not out.strip():
        found.append("it prints nothing")
    if left := _still_running(mark, program.pid):
        found.append(f"it leaves processes behind: {left}")
    return found


def ending_complaints(path: Path, folder: Path, programs: ForkedPrograms) -> list[str]:
    """After its first line, Ctrl-C or a closed pipe ends it quietly, with all of it.

    A demo that is through before that has ended well. A child that is killed while
    Python tries out its folder for temporary files leaves one there: it gets its own.
    """
    with tempfile.TemporaryDirectory() as temporary:
        return [
            complaint
            for how in ("SIGINT", "SIGPIPE")
            for complaint in _after_signal(how, path, folder, temporary, programs)
        ]


def _after_signal(how: str, path: Path, folder: Path, temporary, programs) -> list[str]:
    mark = uuid.uuid4().hex
    own = {"TMPDIR": temporary, "SIDEBYSIDE_DEMO": mark}
    complaints = []
    with programs.start(path, folder=folder, **own) as program:
        program.stdout.readline()
        if how == "SIGINT":
            program.interrupt()
        else:
            program.stdout.close()
        try:
            said = program.communicate(60)[1]
        except subprocess.TimeoutExpired as late:
            said = f"it did not end\n{late.stderr.decode()}"
    if said:
        complaints.append(f"after {how}: {said[-2000:]}")
    if program.returncode not in (0, -getattr(signal, how)):
        complaints.append(f"after {how} it ends with status {program.returncode}")
    if left := _still_running(mark, program.pid):
        complaints.append(f"after {how} it leaves processes behind: {left}")
    return complaints


def murder_complaints(path: Path, folder: Path, programs: ForkedPrograms) -> list[str]:
    """Killed when two workers of its pool have started, it leaves none of them."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as temporary:
        own = {"TMPDIR": temporary, "SIDEBYSIDE_DEMO": mark}
        with programs.start(path, folder=folder, **own) as program:
            while program.poll() is None and len(_workers(mark)) < 2:
                time.sleep(0.01)
            program.kill()
        left = _still_running(mark, program.pid)
    return [f"killed, it leaves processes behind: {left}"] if left else []


def _workers(mark: str) -> list[psutil.Process]:
    """Processes that run tasks; a resource tracker is none."""
    found = []
    for process in _marked(mark):
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            if "spawn_main" in command or "loky.backend.popen" in command:
                found.append(process)
    return found


PATIENCE = 60  # seconds that processes of a demo get to end


def _still_running(mark: str, session: int | None = None) -> list[str]:
    """Processes with the mark, or of the session, after a moment to end; then killed.

    A forked process shows the environment that its server was started with.
    """
    deadline = time.monotonic() + PATIENCE
    while (left := _marked(mark, session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    commands = []
    for process in left:
        with contextlib.suppress(psutil.Error):
            commands.append(" ".join(process.cmdline()))
            process.kill()
    return commands


def _marked(mark: str, session: int | None = None) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            marked = process.environ().get("SIDEBYSIDE_DEMO") == mark
            marked = marked or (session and os.getsid(process.pid) == session)
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def test_there_is_nothing_but_programs():
    assert not folder_complaints(DEMOS)


@pytest.mark.parametrize("name", NAMES, ids=with_its_lessons)
def test_the_docstring_is_the_manual(name):
    assert not manual_complaints(DEMOS / name)


@pytest.mark.everything
@pytest.mark.parametrize("name", NAMES, ids=with_its_lessons)
def test_help_and_bad_input_are_answered(name, tmp_path_factory, programs):
    folder = tmp_path_factory.getbasetemp()
    assert not answer_complaints(DEMOS / name, folder, programs)


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
    if pytestconfig.option.everything or not hasattr(os, "fork"):
        assert not run_complaints(DEMOS / name, tmp_path)
    else:
        start, args = request.getfixturevalue("programs").start, LITTLE.get(name, [])
        assert not run_complaints(DEMOS / name, tmp_path, *args, start=start)


@pytest.mark.everything
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", NAMES, ids=with_its_lessons)
def test_an_interrupt_and_a_closed_pipe_end_a_demo_quietly(name, tmp_path, programs):
    assert not ending_complaints(DEMOS / name, tmp_path, programs)


@pytest.mark.everything
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", WITH_POOL, ids=with_its_lessons)
def test_a_killed_demo_leaves_no_worker_of_its_pool(name, tmp_path, programs):
    assert not murder_complaints(DEMOS / name, tmp_path, programs)


# A planted demo: the faults are found -------------------------------------------------

PLANTED = '''"""Count.

Run:      python demos/planted/demo.py --steps 3
Look for: the number.
Try:      --steps 5
"""

import argparse
import multiprocessing
import sys
import time

from sidebyside import at_least, positive_int, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--steps", type=positive_int, default=3)
    parser.add_argument("--seed", type=at_least(-9), default=0)
    args = parser.parse_args()
    while True:
        print(args.steps, flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    run_program(main)
'''


def planted(folder: Path, *replacements: tuple[str, str]) -> Path:
    path = folder / "demos" / "planted" / "demo.py"
    path.parent.mkdir(parents=True)
    text = PLANTED
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_demo_gets_no_complaint(tmp_path, programs):
    path = planted(tmp_path)
    assert manual_complaints(path) == []
    assert answer_complaints(path, tmp_path, programs) == []
    assert ending_complaints(path, tmp_path, programs) == []


def test_a_poor_demo_gets_a_complaint_for_each_of_its_faults(tmp_path, programs):
    starts = "    multiprocessing.Process(target=print).start()\n"
    path = planted(
        tmp_path,
        ("Try:", "Look:"),
        ("type=positive_int", "type=int"),
        ("type=at_least(-9), ", ""),
        ("program_parser(__doc__)", "argparse.ArgumentParser(description=__doc__)"),
        ("    while", f"{starts}    while"),
        ("run_program(main)", "main()"),
    )
    assert manual_complaints(path) == ["Try: is not in its docstring"]
    found = "\n".join(answer_complaints(path, tmp_path, programs))
    for fault in (
        "--help does not show the whole docstring",
        "--steps 0 is not refused: status RuntimeError: a process, started a process",
        f"--seed {10**30} is not refused",
        "--steps x is not told what is allowed",
    ):
        assert fault in found
    path.write_text(path.read_text().replace(starts, ""))
    found = "\n".join(ending_complaints(path, tmp_path, programs))
    assert "after SIGINT: Traceback" in found and "after SIGPIPE: Traceback" in found


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


@pytest.mark.parametrize("type_", [output_file, own_ddp.file_name])
def test_a_file_to_write_is_tried_and_a_link_is_followed(type_, tmp_path):
    resource = pytest.importorskip("resource")  # of POSIX
    path, link = tmp_path / "a.png", tmp_path / "link"
    link.symlink_to(path)
    assert [str(type_(str(name))) for name in (path, link)] == [str(path)] * 2
    assert os.listdir(tmp_path) == ["link"]
    os.mkfifo(tmp_path / "pipe")
    names = "", tmp_path, tmp_path / "missing" / "a", tmp_path / "pipe", "a" * 300
    for name in map(str, (*names, os.devnull)):
        with pytest.raises(argparse.ArgumentTypeError):
            type_(name)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # a small disk
    try:
        with pytest.raises(argparse.ArgumentTypeError, match="File too large"):
            type_(str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]
