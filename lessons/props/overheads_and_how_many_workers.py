"""Timelines of lesson 06, whose pieces of work are naps."""

import random
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from threading import Lock, Thread
from time import sleep

from parallel_by_hand.overheads.pieces_of_work import nap_for
from sidebyside import Timeline, span


def heavy_tailed_naps(pieces: int, total: float, seed: int = 7) -> list[float]:
    """Lengths in seconds that add up to `total`: most are short, and a few are long."""
    dice = random.Random(seed)
    lengths = [dice.paretovariate(1.3) for _ in range(pieces)]
    return [total * length / sum(lengths) for length in lengths]


def timeline_of_chunks(lengths: list[float], chunk: int, workers: int = 4) -> Timeline:
    """The naps, handed to `workers` threads in chunks of so many."""
    with Timeline() as timeline, ThreadPool(workers) as pool:
        pool.map(nap_for, lengths, chunksize=chunk)
    return timeline


# Four crews of two workers for the same work, eight naps of 30 ms. -------------------

NAPS, NAP = 8, 0.03


def _nap(naps: int = 1) -> None:
    for _ in range(naps):
        with span("work"):
            sleep(NAP)


def _run_crew(*jobs: Callable[[], None]) -> None:
    """A worker for each job, all at the same time."""
    crew = [Thread(target=job, name=f"worker {n}") for n, job in enumerate(jobs, 1)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()


def _crew_a() -> None:
    lock = Lock()

    def job() -> None:
        for _ in range(NAPS // 2):
            with lock:
                _nap()
            sleep(0.001)  # let the other have its turn

    _run_crew(job, job)


def _crew_b() -> None:
    for _ in range(NAPS // 2):
        with span("hand out"):
            sleep(0.8 * NAP)
        _run_crew(_nap, _nap)


def _crew_c() -> None:
    _run_crew(lambda: _nap(NAPS - 1), _nap)


def _crew_d() -> None:
    with span("main alone"):
        sleep(4 * NAP)
    _run_crew(lambda: _nap(NAPS // 2), lambda: _nap(NAPS // 2))


def four_timelines() -> dict[str, Timeline]:
    """Timelines A, B, C and D; each crew has something to mend."""
    timelines = {}
    for name, crew in zip(
        "ABCD",
        (_crew_a, _crew_b, _crew_c, _crew_d),
        strict=True,
    ):
        with Timeline() as timelines[name]:
            crew()
    return timelines
