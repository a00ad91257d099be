"""The tests bite: each planted fault turns a run of a tiny course red."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from lessons.source import notebooks
from tests import tiny_course as tiny


def run_pytest(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    """The test command of the README, in the folder of a tiny course.

    In one process, which is quicker for so few tests, or as the arguments say.
    """
    command = [sys.executable, "-m", "pytest", "--color=no", "-n0", *arguments]
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=550
    )


PROCESSES = ["-n0", pytest.param("-n2", marks=pytest.mark.everything)]


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


FAULTS = {  # a notebook: what it is made of, what is replaced, and what the run says
    "lesson.ipynb": ("lesson", [
        ("answer = ...", "%nonsense", "answered with an error: UsageError"),
        ("except NotImplementedError", "except ValueError", "NotImplementedError"),
        ("1 / 0", "1 / 1", "Tagged raises-exception, but nothing was raised"),
    ]),
    "dead_kernel.ipynb": ("lesson", [
        ("1 / 0", "import os; os._exit(1)", "The kernel died in this cell"),
    ]),
    "solution.ipynb": ("solution", [
        ("return x + x", "return x + nonsense", "name 'nonsense' is not defined"),
        ("loss 0.6931", "loss 0.6932", "Cell outputs differ"),
    ]),
}  # fmt: skip


def plant_faults(root: Path) -> dict[str, list[str]]:
    """Beside the sound lesson, notebooks with faults; what the run says of each."""
    expected = {}
    for name, (kind, faults) in FAULTS.items():
        sound = tiny.products(root)[kind]
        planted = sound.with_name(name)
        shutil.copy(sound, planted)
        for old, new, _ in faults:
            edit(planted, old, new)
        expected[name] = [message for *_, message in faults]
    solution = nbformat.read(tiny.products(root)["solution"], 4)
    solution.cells[1].outputs = []
    lost_output = root / "solutions/lost_output.ipynb"
    lost_output.write_text(notebooks.to_text(solution))
    never_run = root / "solutions/never_run.ipynb"
    shutil.copy(tiny.products(root)["lesson"], never_run)
    return expected | {
        lost_output.name: ["Cell outputs differ"],
        never_run.name: ["has no stored run"],
    }


@pytest.mark.parametrize("processes", PROCESSES)
def test_the_tiny_course_without_a_fault_is_green(course, processes):
    run = run_pytest(course, processes)
    assert run.returncode == 0, run.stdout
    assert "11 passed" in run.stdout
    assert "lessons/90_tiny.ipynb" in run.stdout.split("peak memory")[1]


def test_each_planted_fault_turns_its_notebook_red(course):
    expected = plant_faults(course)
    # A dead kernel that went unnoticed would outlast the run.
    run = run_pytest(course, "--nbval-cell-timeout=1000", "lessons", "solutions")
    assert run.returncode == 1, run.stdout
    reports = re.split(r"^_{3,} (\S+\.ipynb)\S* .*_{3,}$", run.stdout, flags=re.M)
    said: dict[str, str] = {}
    for path, report in zip(reports[1::2], reports[2::2], strict=True):
        said[Path(path).name] = said.get(Path(path).name, "") + report
    assert set(said) == set(expected), "and the sound lesson is green"
    for name, messages in expected.items():
        assert all(message in said[name] for message in messages)


@pytest.mark.everything
def test_a_run_that_executes_nothing_is_red(course):
    for folder in "lessons", "solutions":
        shutil.rmtree(course / folder)
        (course / folder).mkdir()
    write_test(course, "def test_nothing(): pass\n")
    run = run_pytest(course, "--deselect=tests/test_products.py")
    assert run.returncode == 1
    assert "executed no cells" in run.stdout


@pytest.mark.everything
@pytest.mark.parametrize(
    ("arguments", "passed", "says"),
    [([""], 1, True), (["", "--everything"], 2, False), (["::test_long"], 1, False)],
)
def test_a_run_says_at_its_end_what_it_left_out(course, arguments, passed, says):
    head = "import pytest\n\n\ndef test_short(): pass\n\n\n"
    write_test(course, f"{head}@pytest.mark.everything\ndef test_long(): pass\n")
    named, *options = arguments
    run = run_pytest(course, f"tests/test_planted.py{named}", *options)
    assert f"{passed} passed" in run.stdout
    said = "Left out: 1 other tests. They run with `pytest --everything`."
    assert (run.stdout.splitlines()[-1] == said) is says


SHARED_LEAK = Path(f"/dev/shm/sidebyside-leak-{os.getpid()}")
LEAKS = {
    "process": "subprocess.Popen(['sleep', '60'])",
    "orphan": "subprocess.run(['sh', '-c', 'sleep 60 &'])",
    "temporary file": "tempfile.mkstemp()",
    "temporary folder": "tempfile.mkdtemp()",
    "open port": "sys.kept = socket.create_server(('localhost', 0))",
    "shared memory": f"open('{SHARED_LEAK}', 'w').close()",
}


@pytest.mark.skipif(not Path("/dev/shm").exists(), reason="Linux only")
@pytest.mark.parametrize("processes", PROCESSES)
def test_whatever_is_left_behind_turns_the_run_red(course, processes):
    lines = "\n".join(
        f"def test_{name.replace(' ', '_')}(): {leak}" for name, leak in LEAKS.items()
    )
    head = "import socket, subprocess, sys, tempfile\nfrom tests.plugins import leaks\n"
    write_test(course, f"{head}leaks.PATIENCE = 2\n{lines}\n")
    try:
        run = run_pytest(course, "tests/test_planted.py", processes)
    finally:
        SHARED_LEAK.unlink(missing_ok=True)
    assert f"{len(LEAKS)} passed" in run.stdout
    assert run.returncode == 1
    found = [line for line in run.stdout.splitlines() if "left behind:" in line]
    kinds = [line.split(": ")[1].rsplit(" ", 1)[0] for line in found]
    assert any(SHARED_LEAK.name in line for line in found)
    assert sorted(kinds) == [
        "open port",
        *2 * ["process"],
        "shared memory",
        *2 * ["temporary file"],
    ]
