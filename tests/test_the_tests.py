"""The tests bite: each planted fault turns a run of a tiny course red."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from lessons.source import notebooks
from sidebyside.record import ROOT
from tests import tiny_course as tiny
from tests.plugins import leaks


def run_pytest(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    """The test command of the README, in the folder of a tiny course.

    In one process, which is quicker for so few tests, or as the arguments say.
    """
    command = [sys.executable, "-m", "pytest", "--color=no", "-n0", *arguments]
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=200
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("sound")
    tiny.write_sources(root)
    assert tiny.run_build(root) == 0
    return root


@pytest.fixture
def course(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "course"))


def write_test(root: Path, text: str) -> None:
    (root / "tests").mkdir(exist_ok=True)
    (root / "tests/test_planted.py").write_text(text)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def in_the(kind: str, old: str, new: str):
    """A fault: in this product (or both notebooks) something has been replaced."""

    def plant(root: Path) -> None:
        for each in ("lesson", "solution") if kind == "both" else (kind,):
            edit(tiny.products(root)[each], old, new)

    return plant


def source_moved_on(root: Path) -> None:
    edit(
        root / f"lessons/source/{tiny.NAME}/lesson.py",
        "one of everything",
        "a bit of all",
    )


def solved_lesson(root: Path) -> None:
    nb = nbformat.read(tiny.products(root)["solution"], 4)
    for cell in notebooks.code_cells(nb):
        cell.outputs, cell.execution_count = [], None
    tiny.products(root)["lesson"].write_text(notebooks.to_text(nb))


def solution_never_run(root: Path) -> None:
    shutil.copy(tiny.products(root)["lesson"], tiny.products(root)["solution"])


def lost_output(root: Path) -> None:
    nb = nbformat.read(tiny.products(root)["solution"], 4)
    nb.cells[1].outputs = []
    tiny.products(root)["solution"].write_text(notebooks.to_text(nb))


A_DEMO = next(ROOT.glob("demos/*/*.py"), Path("none/none.py"))
FAILING_DEMO = (
    'from sidebyside import run_demo\\n",\n'
    f"    \"run_demo('{A_DEMO.parent.name}/{A_DEMO.name}', '--no-such-option')"
)
FAULTS = {  # name: what is done, which folder notices, and what it says
    "a broken solution": (
        in_the("solution", "return x + x", "return x + nonsense"),
        "solutions",
        "name 'nonsense' is not defined",
    ),
    "a changed loss": (
        in_the("solution", "loss 0.6931", "loss 0.6932"),
        "solutions",
        "Cell outputs differ",
    ),
    "an output that is no longer there": (
        lost_output,
        "solutions",
        "Cell outputs differ",
    ),
    "a failing demo": (
        in_the("lesson", "answer = ...", FAILING_DEMO),
        "lessons",
        "DemoFailed",
    ),
    "an unknown magic": (
        in_the("lesson", "answer = ...", "%nonsense"),
        "lessons",
        "answered with an error: UsageError",
    ),
    "a lesson that needs its exercise": (
        in_the("lesson", "except NotImplementedError", "except ValueError"),
        "lessons",
        "NotImplementedError",
    ),
    "a demonstration that does not fail": (
        in_the("lesson", "1 / 0", "1 / 1"),
        "lessons",
        "Tagged raises-exception, but nothing was raised",
    ),
    "a solution that was never run": (
        solution_never_run,
        "solutions",
        "has no stored run",
    ),
    "a stale product": (source_moved_on, "tests", "90_tiny.ipynb is stale"),
    "a solved lesson": (solved_lesson, "tests", "lessons/90_tiny.ipynb is stale"),
}


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_the_tiny_course_without_a_fault_is_green(course, processes):
    run = run_pytest(course, processes)
    assert run.returncode == 0, run.stdout
    assert "11 passed" in run.stdout
    assert "lessons/90_tiny.ipynb" in run.stdout.split("peak memory")[1]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_turns_the_run_red(course, fault):
    plant, folder, message = FAULTS[fault]
    plant(course)
    run = run_pytest(course, folder)
    assert run.returncode == 1, run.stdout
    assert message in run.stdout


def test_a_dead_kernel_is_noticed_at_once(course):
    in_the("lesson", "1 / 0", "import os; os._exit(1)")(course)
    start = time.monotonic()
    run = run_pytest(course, "lessons")
    assert run.returncode == 1
    assert "The kernel died in this cell" in run.stdout
    assert time.monotonic() - start < 30, "the time limit of a cell is 60 s"


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("tests", "executed no tests"),
        ("lessons solutions", "executed no cells"),
        ("tests lessons solutions", "executed no cells and no tests"),
    ],
)
def test_a_run_that_executes_nothing_is_red(course, gone, message):
    for folder in gone.split():
        shutil.rmtree(course / folder)
        (course / folder).mkdir()
    if "tests" not in gone:
        shutil.rmtree(course / "tests")
        write_test(course, "def test_nothing(): pass\n")
    run = run_pytest(course)
    assert run.returncode == 1
    assert message in run.stdout


def test_a_run_whose_tests_are_all_skipped_is_red(course):
    write_test(course, "import pytest\n\ndef test_it(): pytest.skip('no reason')\n")
    run = run_pytest(course, "tests/test_planted.py")
    assert run.returncode == 1
    assert "executed no cells and no tests" in run.stdout


def test_a_check_that_accepts_a_wrong_answer_is_red(course):
    head = "from tests.exercise_rules import complaints\n"
    head += "from tests.test_exercises import _accepts_everything, planted\n"
    write_test(
        course,
        f"{head}def test_it(): assert not complaints(planted(_accepts_everything))\n",
    )
    run = run_pytest(course, "tests/test_planted.py")
    assert run.returncode == 1
    assert "starts_at_zero is not NOT YET" in run.stdout


LEAKS = {
    "process": "subprocess.Popen(['sleep', '60'])",
    "orphan": "subprocess.run(['sh', '-c', 'sleep 60 &'])",
    "temporary file": "tempfile.mkstemp()",
    "temporary folder": "tempfile.mkdtemp()",
    "open port": "sys.kept = socket.create_server(('localhost', 0))",
    "shared memory": "open('/dev/shm/sidebyside-leak', 'w').close()",
}


@pytest.mark.skipif(not Path("/dev/shm").exists(), reason="Linux only")
@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_whatever_is_left_behind_turns_the_run_red(course, processes):
    lines = "\n".join(
        f"def test_{name.replace(' ', '_')}(): {leak}" for name, leak in LEAKS.items()
    )
    head = "import socket, subprocess, sys, tempfile\nfrom tests.plugins import leaks\n"
    write_test(course, f"{head}leaks.PATIENCE = 2\n{lines}\n")
    try:
        run = run_pytest(course, "tests/test_planted.py", processes)
    finally:
        Path("/dev/shm/sidebyside-leak").unlink(missing_ok=True)
    assert f"{len(LEAKS)} passed" in run.stdout
    assert run.returncode == 1
    found = [line for line in run.stdout.splitlines() if "left behind:" in line]
    kinds = [line.split(": ")[1].rsplit(" ", 1)[0] for line in found]
    assert any("sidebyside-leak" in line for line in found)
    assert sorted(kinds) == [
        "open port",
        *2 * ["process"],
        "shared memory",
        *2 * ["temporary file"],
    ]


@pytest.mark.parametrize(
    ("name", "is_worker", "is_inside", "counts"),
    [
        ("sem.nobodys", False, False, True),
        ("sem.nobodys", False, True, False),
        ("joblib_nobodys", False, True, False),
        ("nobodys", False, True, True),
        ("nobodys", True, True, False),
    ],
)
def test_shared_memory_is_judged_by_a_run_that_can_tell_whose_it_is(
    name, is_worker, is_inside, counts
):
    run = SimpleNamespace(is_worker=is_worker, is_inside=is_inside, marker="/run")
    assert leaks.Watch.may_own(run, Path("/dev/shm", name)) is counts


def test_a_test_that_hangs_is_stopped(course):
    head = "import threading\nfrom tests.plugins import leaks\n"
    limit = "leaks.SECONDS_PER_TEST = 1\n"
    write_test(course, f"{head}{limit}def test_it(): threading.Event().wait()\n")
    run = run_pytest(course, "tests/test_planted.py")
    assert run.returncode == 1
    assert "took longer than 1 s" in run.stdout


def test_the_learners_progress_is_not_touched_by_tests():
    assert Path(os.environ["SIDEBYSIDE_PROGRESS"]) != ROOT / ".sidebyside"
    assert ROOT not in Path(os.environ["SIDEBYSIDE_PROGRESS"]).parents
