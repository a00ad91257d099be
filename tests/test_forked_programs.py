"""A forked program is as one that was started: its place, its words, how it ends."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.forked_programs import ForkedPrograms
from tests.process_state import is_alive, wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks programs")

PROGRAM = """
import os, sys, time
import __main__, psutil
from sidebyside import run_ranks

def main():
    print(sys.argv[1:], os.getcwd(), os.environ["WORD"])
    print(__name__, __file__ == __main__.__file__ == sys.argv[0])
    [waiting] = psutil.Process().children()
    print(waiting.pid, run_ranks(os.getppid) == [waiting.pid] * 2, flush=True)
    if sys.argv[1] == "end":
        sys.exit(3)
    time.sleep(600)

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def programs():
    with ForkedPrograms() as programs:
        yield programs


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_it_has_what_it_was_given_and_its_status_is_known(programs, path):
    given = {"folder": path.parent, "WORD": "×"}
    with programs.start(path, "end", "2", **given) as program:
        out, err = program.communicate(60)
    first, second, third = out.splitlines()
    assert (first, err) == (f"['end', '2'] {path.parent} ×", "")
    assert second == "__main__ True"
    assert third.endswith(" True")
    assert program.returncode == 3


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["^C", "kill"])
def test_it_ends_of_a_signal_together_with_its_forkserver(how, programs, path):
    with programs.start(path, "stay", folder=path.parent, WORD="") as program:
        said = [program.stdout.readline().decode() for _ in range(3)]
        program.interrupt() if how == signal.SIGINT else program.kill()
        _, err = program.communicate(60)
    assert program.returncode == -how
    assert ("KeyboardInterrupt" in err) == (how == signal.SIGINT)
    forkserver = int(said[2].split()[0])
    wait_until(lambda: not is_alive(forkserver))


def test_who_does_not_end_is_ended(programs, path):
    path.write_text("import time\nprint(1, flush=True)\ntime.sleep(600)")
    program = programs.start(path, folder=path.parent)
    with pytest.raises(subprocess.TimeoutExpired), program:
        program.communicate(0.1)
    assert program.returncode == -signal.SIGKILL
