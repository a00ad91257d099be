"""What lesson 07 says is so: same bits, whatever the pool; nothing finished is lost.

No test here asks for speed. Pools are started once for many cases, for that is slow.
"""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from parallel_by_hand.practice import accidents, programs_to_diagnose
from parallel_by_hand.practice.diagnosis import diagnose
from parallel_by_hand.practice.oscillator import (
    oscillator_tasks,
    simulate_oscillator,
    solve_oscillator,
)
from sidebyside.course.lesson_format import read_lesson, solved
from sidebyside.programs.run_demo import DEMOS
from tests.exercise_rules import answers

spawn = get_context("spawn")
DEMO = DEMOS / "practice" / "generate_ode_data.py"
FEW = "--tasks", "8"


# The data ----------------------------------------------------------------------------


def test_the_solver_takes_many_more_steps_where_mu_is_large():
    stiff = solve_oscillator(30, 1.0)
    assert len(stiff.t) > 3 * len(solve_oscillator(1, 1.0).t)
    jump = (stiff.t > 0.45) & (stiff.t < 0.8)
    assert jump.sum() < 50, "nearly all steps are where the curve is almost flat"
    assert np.ptp(stiff.y[0][jump]) > 2.5


# The demo that writes them -----------------------------------------------------------


def run(*arguments, folder) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, DEMO, *map(str, arguments)],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def rows(path) -> np.ndarray:
    with np.load(path) as file:
        return file["rows"]


@pytest.mark.everything
def test_a_killed_run_is_resumed_to_the_same_file(tmp_path):
    assert (
        run(*FEW, "--out", "whole.npz", "--workers", 1, folder=tmp_path).returncode == 0
    )
    killed = run(
        *FEW, "--out", "data.npz", "--kill-at", 6, "--workers", 1, folder=tmp_path
    )
    assert killed.returncode == 1
    assert "6 of 8 tasks are saved" in killed.stdout
    assert not (tmp_path / "data.npz").exists(), "never half a file"
    assert "Traceback" not in killed.stderr

    other = run(*FEW, "--out", "data.npz", "--seed", 8, folder=tmp_path)
    assert (other.returncode, other.stdout) == (2, ""), "it does not mix two data sets"

    resumed = run(*FEW, "--out", "data.npz", "--workers", 2, folder=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "6 of 8 tasks are there" in resumed.stdout
    whole = (tmp_path / "whole.npz").read_bytes()
    assert (tmp_path / "data.npz").read_bytes() == whole
    serial = np.concatenate(
        [simulate_oscillator(task) for task in oscillator_tasks(7, 8)]
    )
    assert np.array_equal(rows(tmp_path / "data.npz"), serial)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.npz", "whole.npz"]

    assert run(*FEW, "--out", "data.npz", folder=tmp_path).returncode == 2
    assert (tmp_path / "data.npz").read_bytes() == whole, "nothing is overwritten"


# Accidents ---------------------------------------------------------------------------

BAD, OTHERS = accidents.BAD, accidents.TASKS - 1
PATIENCE = 5.0


def met(accident: str) -> dict[str, dict]:
    pools = list(accidents.POOLS)
    with accidents.accidents_side_by_side(pools, accident, PATIENCE) as found:
        return dict(zip(pools, found, strict=True))


@pytest.mark.everything
def test_an_exception_reaches_every_caller_and_spoils_no_pool():
    found = met("exception")
    assert {row["learns"] for row in found.values()} == {"ValueError"}
    assert {row["next"] for row in found.values()} == {"works"}
    assert all(row["hand"] <= BAD for row in found.values()), "the rest is lost"
    assert found["Pool"]["computed"] == OTHERS, "Pool goes on with the others"
    assert found["executor"]["computed"] < OTHERS
    assert found["joblib"]["computed"] < OTHERS


@pytest.mark.everything
def test_only_pool_does_not_notice_that_a_worker_was_killed():
    found = met("kill")
    assert found["Pool"]["learns"].startswith("nothing in")
    assert found["Pool"]["hand"] == BAD
    assert found["Pool"]["computed"] == OTHERS
    assert found["executor"]["learns"] == "BrokenProcessPool"
    assert found["executor"]["next"] == "BrokenProcessPool"
    assert found["joblib"]["learns"] == "TerminatedWorkerError"
    assert found["joblib"]["next"] == "works"


def answer_or_die(task: int) -> int:
    """Task 3 waits until all have been submitted, and is killed."""
    if task == 3:
        for _ in range(6000):  # a minute
            if os.path.exists(os.environ["ALL_SUBMITTED"]):
                break
            time.sleep(0.01)
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return task


@pytest.mark.everything
def test_run_all_keeps_what_was_done_when_a_worker_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("ALL_SUBMITTED", str(tmp_path / "all"))
    lesson = read_lesson(Path(__file__).parent)
    run_all, *_ = answers(lesson, "07-finish", solved)
    tasks = list(range(12))
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:

        def submit(work, task):
            future = ProcessPoolExecutor.submit(pool, work, task)
            if task == tasks[-1]:
                (tmp_path / "all").touch()
            return future

        monkeypatch.setattr(pool, "submit", submit)
        results, failed = run_all(answer_or_die, tasks, pool, {})
        assert results == {task: task for task in tasks[:3]}
        assert list(failed) == tasks[3:]
        assert {type(error) for error in failed.values()} == {BrokenProcessPool}
        with pytest.raises(BrokenProcessPool):
            run_all(answer_or_die, tasks, pool, results)


@pytest.mark.everything
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no groups of processes")
def test_an_interrupt_ends_every_pool():
    found = met("Ctrl-C")
    assert {row["learns"] for row in found.values()} == {"KeyboardInterrupt"}
    assert all(row["computed"] < OTHERS for row in found.values())


# The checklist -----------------------------------------------------------------------


@pytest.mark.everything
def test_the_diagnosis_finds_the_trouble_of_each_program():
    programs = programs_to_diagnose.programs()
    tasks = programs["search"][1]
    assert max(tasks) / sum(tasks) == pytest.approx(5 / 6)
    programs["ask"] = programs_to_diagnose.ask_computer_program, [0.05] * 4
    found = {}
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        for name, (function, its_tasks) in programs.items():
            findings = diagnose(function, its_tasks, pool, workers=2)
            found[name] = {n for n, f in enumerate(findings, 1) if f.suspicious}
    assert 1 in found["words"]
    assert 2 in found["ask"] and 4 not in found["ask"]
    assert 4 in found["images"]
    assert 5 in found["search"] and 4 not in found["search"]
