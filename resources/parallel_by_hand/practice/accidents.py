"""Three pools and three accidents: what the caller learns, and what is lost."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import TimeoutError, get_context, resource_tracker
from pathlib import Path
from time import sleep

import psutil

from sidebyside.programs.run_program import tidies_up_for_others

TASKS, BAD, WORKERS = 48, 37, 2
POOLS = ("Pool", "executor", "joblib")
ACCIDENTS = ("exception", "kill", "Ctrl-C")
LONGEST = 60  # seconds for one experiment, then it is ended from outside


def _task(number: int, accident: str, log: str) -> int:
    """Wait a moment; number 37 meets with the accident instead."""
    sleep(0.02)
    if number == BAD and accident == "exception":
        raise ValueError("bad data")
    if number == BAD and accident == "kill":
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    if number == BAD and accident == "Ctrl-C":
        os.killpg(os.getpgrp(), signal.SIGINT)  # as a terminal does: to the group
        sleep(LONGEST)
    with open(log, "ab") as file:
        file.write(b".")
    return number


# Each opens a pool and yields a function `results(work, numbers)`: an iterator over
# the results, in order, as they come.


@contextlib.contextmanager
def _open_pool(patience: float):
    def results(work, numbers):
        found = pool.imap(work, numbers)
        for _ in numbers:
            yield found.next(patience)  # without a limit it would wait for ever

    with get_context("spawn").Pool(WORKERS) as pool:
        pool.map(abs, range(WORKERS))  # they have started: patience is for tasks
        yield results


@contextlib.contextmanager
def _open_executor(patience: float):
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        yield pool.map


@contextlib.contextmanager
def _open_joblib(patience: float):
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    def results(work, numbers):
        options: dict = {"batch_size": 1, "return_as": "generator"}
        pool = Parallel(n_jobs=WORKERS, **options)
        return pool(delayed(work)(number) for number in numbers)

    try:
        yield results
    finally:
        get_reusable_executor().shutdown(wait=True)


OPEN = {
    "Pool": _open_pool,
    "executor": _open_executor,
    "joblib": _open_joblib,
}


def _experiment(pool: str, accident: str, patience: float, log: str) -> dict:
    """Collect the results of all tasks, as far as they come; then give a next job."""
    hand, learns, afterwards = [], "nothing: all is well", "-"
    try:
        with OPEN[pool](patience) as results:
            try:
                work = partial(_task, accident=accident, log=log)
                for result in results(work, range(TASKS)):
                    hand.append(result)
            except TimeoutError:
                learns = f"nothing in {patience:g} s"
            except Exception as error:
                learns = type(error).__name__
            try:
                afterwards = f"{sum(results(abs, range(4))) == 6 and 'works'}"
            except Exception as error:
                afterwards = type(error).__name__
            sleep(1)  # a worker that is at a task finishes it
            computed = Path(log).stat().st_size  # a byte for each
    except KeyboardInterrupt:
        learns, computed = "KeyboardInterrupt", Path(log).stat().st_size
    return {
        "learns": learns, "computed": computed, "hand": len(hand), "next": afterwards,
    }  # fmt: skip


def _report(pool: str, accident: str, patience: str, log: str) -> None:
    """The whole of the program that `_start_accident` starts.

    It may be killed at any moment. A semaphore is removed after it by a tracker, which
    must run before the first one is made. The demo keeps Ctrl-C from what it starts.
    """
    resource_tracker.ensure_running()
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    print(json.dumps(_experiment(pool, accident, float(patience), log)))


def _start_accident(
    pool: str, accident: str, patience: float, log: Path
) -> subprocess.Popen:
    """The experiment as a program of its own, in a group of its own."""
    code = "import sys; from parallel_by_hand.practice import accidents as here; "
    code += "here._report(*sys.argv[1:])"
    command = [sys.executable, "-c", code, pool, accident, str(patience), str(log)]
    return subprocess.Popen(
        command, stdout=-1, stderr=subprocess.DEVNULL, start_new_session=True
    )


def end_accident(program: subprocess.Popen) -> None:
    """After an accident, helpers get a moment to tidy up; then all of it ends."""
    with contextlib.suppress(OSError, AttributeError):  # none is left, or Windows
        if program.poll() is not None:
            _wait_for_group(program.pid)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                is_ours = os.getpgid(process.pid) == program.pid
                if is_ours and not tidies_up_for_others(process):
                    process.kill()
        _wait_for_group(program.pid)
        os.killpg(program.pid, signal.SIGKILL)
    program.kill()
    program.communicate()


def _wait_for_group(group: int) -> None:
    for _ in range(60):
        os.killpg(group, 0)  # raises when the group is gone
        sleep(0.05)


def _outcome(program: subprocess.Popen, patience: float) -> dict:
    try:
        said, _ = program.communicate(timeout=LONGEST + patience)
        return json.loads(said)
    except (subprocess.TimeoutExpired, ValueError):
        said = "no end in sight" if program.poll() is None else "nothing: it ended"
        return {"learns": said, "computed": "?", "hand": "?", "next": "?"}


@contextlib.contextmanager
def accidents_side_by_side(pools: Sequence[str], accident: str, patience: float):
    """One accident for each pool, all at the same time: their tasks only sleep."""
    programs = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for pool in pools:
                programs.append(
                    _start_accident(pool, accident, patience, Path(folder, pool))
                )
            yield [_outcome(program, patience) for program in programs]
        finally:
            for program in programs:
                end_accident(program)


def compare_accidents(
    patience: float, pools: Sequence = POOLS, accidents: Sequence = ACCIDENTS
) -> list[dict]:
    """Print a row for each accident and pool, and return what stands in them."""
    print(f"{TASKS} tasks, {WORKERS} workers, an accident in task {BAD}")
    print(f"{'accident':<10} {'pool':<9} {'the caller gets':<23}", end="")
    print(f"{'computed':>9} {'in hand':>8}  next job")
    rows = []
    with contextlib.ExitStack() as stack:  # programs tidy up while the next ones run
        for accident in accidents:
            if accident == "Ctrl-C" and not hasattr(os, "killpg"):
                print("Ctrl-C: this system has no groups of processes")
                continue
            results = stack.enter_context(
                accidents_side_by_side(pools, accident, patience)
            )
            for pool, found in zip(pools, results, strict=True):
                print(f"{accident:<10} {pool:<9} {found['learns']:<23}", end="")
                print(f"{found['computed']:>9} {found['hand']:>8}  {found['next']}")
            sys.stdout.flush()
            rows += results
    return rows
