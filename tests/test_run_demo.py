"""A demo runs as from a terminal, and ends in any case with all that it has started."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sidebyside import run_demo
from sidebyside.programs import run_demo as demos
from sidebyside.programs.run_demo import DemoFailed
from tests.process_state import is_alive, wait_until


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder of planted demos."""
    monkeypatch.setattr(demos, "DEMOS", tmp_path)
    return tmp_path


def plant(folder: Path, code: str) -> str:
    """A demo with this code; its name."""
    (folder / "planted").mkdir(exist_ok=True)
    (folder / "planted" / "demo.py").write_text(f"{code}\n")
    return "planted/demo.py"


def test_a_demo_gets_its_arguments_and_is_shown(folder, capsys):
    name = plant(folder, "import sys\nprint(sys.argv[1:])\nprint('×', file=sys.stderr)")
    assert run_demo(name, "--workers", 2, 0.5) is None
    assert capsys.readouterr().out == "['--workers', '2', '0.5']\n×\n"


def test_a_demo_uses_this_python_has_no_input_and_stays_in_the_folder(
    folder, capsys, monkeypatch
):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    code = "import os, sys\nprint(sys.executable, sys.stdin.read() == '', os.getcwd())"
    run_demo(plant(folder, code + "\nprint('MPLBACKEND' in os.environ)"))
    assert capsys.readouterr().out == f"{sys.executable} True {folder}\nFalse\n"


def test_lines_are_shown_when_they_are_printed(folder, capsys):
    go = folder / "go"
    code = f"""
import pathlib, time
print("first")
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.01)
print("second")
"""
    seen = []
    thread = threading.Thread(target=run_demo, args=[plant(folder, code)])
    thread.start()
    wait_until(lambda: seen.append(capsys.readouterr().out) or "first\n" in seen)
    go.touch()
    thread.join()
    assert capsys.readouterr().out == "second\n"


@pytest.mark.parametrize(
    ("code", "message", "status"),
    [
        ("print(1 / 0)", "exit status 1; .*\n.*ZeroDivisionError", 1),
        ("import sys; print('bad'); sys.exit(2)", "exit status 2; .*\nbad", 2),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL", -9),
    ],
)
def test_a_demo_that_fails_says_how(folder, code, message, status):
    with pytest.raises(
        DemoFailed, match=rf"(?s)demos/planted/demo.py .*{message}"
    ) as e:
        run_demo(plant(folder, code))
    assert e.value.status == status


def test_an_unknown_demo_is_answered_with_those_that_are_near(folder):
    plant(folder, "pass")
    for name in "planted/demmo.py", "../planted/demo.py", "", "/etc/passwd", 3:
        hint = 'mean "planted/demo.py"' if "plan" in str(name) else "They lie"
        with pytest.raises(ValueError, match=hint):
            run_demo(name)


LEAVES_A_CHILD = """
import multiprocessing, os, sys, time
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    print(os.getpid(), child.pid, flush=True)
    {then}
"""


def test_what_a_demo_leaves_running_is_ended(folder, capsys):
    run_demo(plant(folder, LEAVES_A_CHILD.format(then="os._exit(0)")))
    for pid in capsys.readouterr().out.split():
        wait_until(lambda pid=int(pid): not is_alive(pid))


CLEANS_UP = """open("begun", "w")
    try:
        child.join()
    finally:
        open("cleaned up", "w")"""


def test_an_interrupted_demo_may_clean_up_and_ends_with_its_children(
    folder, capsys, monkeypatch
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(demos, "SECONDS_TO_END", 60)
    name = plant(folder, LEAVES_A_CHILD.format(then=CLEANS_UP))

    def interrupt_when_it_runs() -> None:
        wait_until(lambda: os.path.exists("begun"))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_it_runs)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_demo(name)
    thread.join()
    assert os.path.exists("cleaned up")
    pids = [int(pid) for pid in capsys.readouterr().out.split()[:2]]
    assert len(pids) == 2
    assert not any(map(is_alive, pids))


def test_a_killed_kernel_takes_the_demo_with_it(folder):
    name = plant(folder, LEAVES_A_CHILD.format(then="child.join()"))
    program = f"""
import pathlib
from sidebyside.programs import run_demo as demos
demos.DEMOS = pathlib.Path({str(folder)!r})
demos.run_demo({name!r})
"""
    kernel = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    )
    pids = [int(pid) for pid in kernel.stdout.readline().split()]
    assert all(map(is_alive, pids))
    kernel.kill()
    kernel.wait()
    kernel.stdout.close()
    for pid in pids:
        wait_until(lambda pid=pid: not is_alive(pid))
