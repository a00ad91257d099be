"""The program that writes the data keeps what is finished, and refuses bad input."""

import os
import signal
import subprocess
import sys
import time

import pytest

from demos.practice.generate_ode_data import DataParts, write_whole_data
from parallel_by_hand.practice.oscillator import COLUMNS, SAMPLES
from sidebyside.programs.run_demo import DEMOS

DEMO = DEMOS / "practice" / "generate_ode_data.py"


@pytest.mark.everything
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no groups of processes")
def test_an_interrupted_run_says_what_is_saved_and_goes_on(tmp_path):
    command = [sys.executable, DEMO, "--tasks", "300", "--out", "data.npz"]
    program = subprocess.Popen(
        command, cwd=tmp_path, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("data.npz.parts/0*.part")):
            assert program.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
        said, complaints = program.communicate(timeout=60)
    finally:
        program.kill()
        program.communicate()
    assert (program.returncode, complaints) == (-signal.SIGINT, "")
    assert "interrupted" in said and "are saved" in said
    saved = DataParts(tmp_path / "data.npz", {"tasks": 300, "seed": 7}).open()
    assert f"{len(saved)} of 300" in said
    assert all(rows.shape == (SAMPLES, len(COLUMNS)) for rows in saved.values())


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"old")

    def fail(file) -> None:
        file.write(b"half of the n")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole_data(path, fail)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
