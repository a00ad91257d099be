"""What lesson 07 says is so: same bits, whatever the pool; nothing finished is lost.

No test here asks for speed. Pools are started once for many cases, for that is slow.
"""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pytest

from demos.practice.generate_ode_data import DataParts, write_whole_data
from lessons.props.parallel_work_in_practice import sum_named_numbers, sum_sent_numbers
from parallel_by_hand.practice import accidents, diagnosis, programs_to_diagnose
from parallel_by_hand.practice.block_matmul import BlockProduct, blocks, strips
from parallel_by_hand.practice.diagnosis import DiagnosedTask, diagnose
from parallel_by_hand.practice.oscillator import (
    COLUMNS,
    SAMPLES,
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


def test_a_pool_makes_the_same_bits_as_a_loop():
    work = oscillator_tasks(seed=3, count=8)
    serial = np.concatenate([simulate_oscillator(task) for task in work])
    with spawn.Pool(2) as pool:
        parallel = np.concatenate(list(pool.imap(simulate_oscillator, work)))
        late = [
            pool.apply_async(simulate_oscillator, (task,)) for task in reversed(work)
        ]
        backwards = np.concatenate([result.get(60) for result in reversed(late)])
    assert serial.shape == (8 * SAMPLES, len(COLUMNS))
    assert np.array_equal(parallel, serial)
    assert np.array_equal(backwards, serial), "the order of computing does not matter"


def test_a_tasks_data_depend_on_the_seed_and_its_number_only():
    few, many = oscillator_tasks(seed=3, count=2), oscillator_tasks(seed=3, count=5)
    assert np.array_equal(simulate_oscillator(few[1]), simulate_oscillator(many[1]))
    assert not np.array_equal(
        simulate_oscillator(few[1])[:, 1:], simulate_oscillator(few[0])[:, 1:]
    )
    assert not np.array_equal(
        simulate_oscillator(few[1]), simulate_oscillator(oscillator_tasks(4, 2)[1])
    )


def test_the_solver_takes_many_more_steps_where_mu_is_large():
    stiff = solve_oscillator(30, 1.0)
    assert len(stiff.t) > 3 * len(solve_oscillator(1, 1.0).t)
    jump = (stiff.t > 0.45) & (stiff.t < 0.8)
    assert jump.sum() < 50, "nearly all steps are where the curve is almost flat"
    assert np.ptp(stiff.y[0][jump]) > 2.5


def test_without_friction_the_oscillator_is_a_cosine():
    path = solve_oscillator(0, 1.0)
    np.testing.assert_allclose(path.y[0], np.cos(path.t), atol=1e-2)


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


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out", "data.txt"], "must end in .npz"),
        (["--out", "nowhere/data.npz"], "a folder that exists"),
        (["--out", "strange.npz"], "not the folder of an earlier run"),
        (["--tasks", "1.5"], "a whole number"),
    ],
)
def test_bad_input_is_answered_by_one_line(arguments, complaint, tmp_path):
    (tmp_path / "strange.npz.parts").mkdir()
    (tmp_path / "strange.npz.parts/diary.txt").write_text("Dear diary")
    ended = run(*arguments, folder=tmp_path)
    assert ended.returncode == 2 and not ended.stdout
    assert complaint in ended.stderr and "Traceback" not in ended.stderr


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


# Makes a semaphore and a worker that lasts, and is killed.
CUT_OFF = """
import os, signal, time
from multiprocessing import get_context

spawn = get_context("spawn")
lock = spawn.Lock()
spawn.Process(target=time.sleep, args=(600,)).start()
print(f"/dev/shm/sem.{lock._semlock.name[1:]}", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.everything
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="semaphores are no files")
def test_after_a_killed_program_its_worker_ends_first_and_its_semaphores_are_removed():
    program = subprocess.Popen(
        [sys.executable, "-c", CUT_OFF], stdout=subprocess.PIPE, start_new_session=True
    )
    semaphore = Path(os.fsdecode(program.stdout.readline()).strip())
    assert semaphore.name.startswith("sem.mp-")
    accidents.end_accident(program)
    assert not semaphore.exists()


@pytest.mark.everything
def test_the_tracker_of_semaphores_runs_before_the_first_one_is_made():
    code = """
from multiprocessing import resource_tracker
from parallel_by_hand.practice import accidents

def experiment(*arguments):
    return resource_tracker._resource_tracker._fd is not None

accidents.experiment_with_accident = experiment
accidents.report_accident("Pool", "kill", "1", "log")
"""
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said == "true\n"


# Matrices ----------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "cuts"), [(5, 1), (7, 3), (8, 8), (10, 4)])
def test_blocks_cover_the_product_once(size, cuts):
    counts = np.zeros((size, size), dtype=int)
    for place in blocks(size, cuts):
        counts[place] += 1
    assert (counts == 1).all()
    lengths = [strip.stop - strip.start for strip in strips(size, cuts)]
    assert max(lengths) - min(lengths) <= 1


def test_blocks_in_processes_give_the_library_s_product():
    with BlockProduct(size=30, cuts=4, workers=2) as work:
        expected = work.by_library()
        np.testing.assert_allclose(work.by_sending(), expected, atol=1e-12)
        assert not work.C.any(), "sending does not touch the shared product"
        np.testing.assert_allclose(work.by_sharing(), expected, atol=1e-12)
    with work:
        np.testing.assert_allclose(work.by_sending(), expected, atol=1e-12)


def test_sending_moves_each_factor_once_per_cut_and_the_product_once():
    moved = BlockProduct(size=200, cuts=4, workers=1).bytes_moved()
    matrix = 200 * 200 * 8
    least = (4 + 4 + 1) * matrix
    assert least < moved["blocks sent"] < least + 16 * 1000
    assert moved["blocks shared"] < 16 * 100


def test_workers_of_the_block_product_compute_with_one_thread_and_we_as_before():
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    with BlockProduct(size=4, cuts=1, workers=1) as work:
        seen = work.pool.apply_async(os.getenv, (name,)).get(60)
    assert (seen, os.environ.get(name)) == ("1", before)


def test_only_memory_with_a_name_can_be_sent_to_a_worker_that_has_started():
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        pool.submit(abs, 0).result(60)  # the worker has started
        memory = SharedMemory(create=True, size=800)
        try:
            numbers = np.ndarray(100, buffer=memory.buf)
            numbers[:] = range(100)
            by_name = pool.submit(sum_named_numbers, memory.name, 100).result(60)
            sent = pool.submit(sum_sent_numbers, numbers).result(60)
            refused = pool.submit(len, spawn.RawArray("d", 100)).exception(60)
        finally:
            del numbers
            memory.close()
            memory.unlink()
    assert by_name == sent == sum(range(100))
    assert isinstance(refused, RuntimeError)
    with pytest.raises(FileNotFoundError):
        SharedMemory(memory.name)


def test_plain_loops_and_the_library_agree_on_whole_numbers():
    whole = np.random.default_rng(0).integers(100, size=(60, 60))
    decimal = whole.astype(float)
    assert np.array_equal(whole @ whole, decimal @ decimal)


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


def test_the_diagnosis_begins_when_nothing_computes_here(monkeypatch):
    spun = [0.05, 0.05, 0.04, 0.0, 0.05]  # CPU seconds during each pause
    clock, naps = 0.0, []

    def nap(seconds: float) -> None:
        nonlocal clock
        clock += spun[len(naps)]
        naps.append(seconds)

    monkeypatch.setattr(diagnosis, "process_time", lambda: clock)
    monkeypatch.setattr(diagnosis, "sleep", nap)
    diagnosis.come_to_rest_before_diagnosis()
    assert len(naps) == 4


def test_the_limits_of_the_diagnosis(monkeypatch):
    """What is suspicious follows from the measurements, here given ones."""

    def suspicious(
        times: list[DiagnosedTask], message: float = 1e-4, crowded: float = 1.0
    ):
        given = iter(times)
        monkeypatch.setattr(
            diagnosis, "time_task_for_diagnosis", lambda work, task: next(given)
        )
        monkeypatch.setattr(
            diagnosis, "message_time_for_diagnosis", lambda pool, workers: message
        )
        monkeypatch.setattr(diagnosis, "slowdown_for_diagnosis", lambda *_: crowded)
        findings = diagnose(abs, range(len(times)), None, workers=2)
        return [n for n, finding in enumerate(findings, 1) if finding.suspicious]

    healthy = DiagnosedTask(wall=0.01, cpu=0.01, pack=1e-5, bytes=100)
    assert suspicious([healthy] * 8) == []
    assert suspicious([healthy] * 8, message=0.02) == [1]
    assert suspicious([healthy._replace(cpu=1e-5)] * 8) == [2]
    starved = [healthy._replace(wall=1.0)] * 7  # by other programs, and then not
    assert suspicious([*starved, healthy]) == []
    assert suspicious([healthy._replace(cpu=0.02)] * 8) == [3]
    assert suspicious([healthy._replace(pack=0.01)] * 8) == [4]
    assert suspicious([healthy] * 8 + [DiagnosedTask(0.5, 0.5, 1e-5, 100)]) == [5]
    assert suspicious([healthy] * 8, crowded=2.0) == [6]


def test_ten_threads_wait_together():
    with ThreadPoolExecutor(10) as pool:
        assert (
            list(pool.map(programs_to_diagnose.ask_computer_program, [0.01] * 10))
            == ["yes"] * 10
        )
