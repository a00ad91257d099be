"""A program with a known serial part, and that part found from its times alone."""

from collections.abc import Callable, Iterable, Mapping
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch.distributed as dist

from sidebyside import run_ranks

STEPS = 30_000_000  # for 1 of work; about a second on one core of today


def compute(work: float) -> None:
    """What the program with a serial share does: keep one core busy."""
    total = 0
    for step in range(round(work * STEPS)):
        total += step


def run_serial_and_parallel(
    work, serial, parallel, counts, rounds, grow
) -> dict[int, list[float]]:
    """Every worker calls this: a known serial share, the rest in parallel, timed."""
    seconds = {workers: [] for workers in counts}
    me = dist.get_rank()  # the workers are numbered from 0
    work(0)  # whatever is slow the first time
    for _ in range(rounds):
        for workers in counts:  # in turn: a disturbance hits all of them
            share = parallel if grow else parallel / workers
            dist.barrier()  # wait until everyone is here
            start = perf_counter()
            if me == 0:
                work(serial)
            dist.barrier()  # nobody begins before the serial part is done
            if me < workers:
                work(share)
            dist.barrier()  # done when the last one is
            seconds[workers].append(perf_counter() - start)
    return seconds


def time_serial_and_parallel(
    work: Callable[[float], None],
    serial: float,
    parallel: float,
    counts: Iterable[int],
    rounds: int = 5,
    grow: bool = False,
) -> dict[int, list[float]]:
    """A program with a serial share: seconds of each round, for each of `counts`."""
    program = work, serial, parallel, list(counts), rounds, grow
    return run_ranks(run_serial_and_parallel, *program, world_size=max(counts))[0]


class SerialShareFit(NamedTuple):
    """T(k) = serial + parallel / k; 95 of 100 redone fits lie from `low` to `high`."""

    serial: float
    parallel: float
    low: float
    high: float

    @property
    def share(self) -> float:
        return self.serial / (self.serial + self.parallel)

    def seconds(self, workers: float) -> float:
        return self.serial + self.parallel / workers

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        share = f"serial share {100 * self.share:.1f} %"
        return f"{share}, 95 of 100 fits: {low:.1f} to {high:.1f} %"


def fit_serial_share(
    seconds: Mapping[float, list[float]], redone: int = 1000
) -> SerialShareFit:
    """The serial share that explains `seconds`: the times of all rounds, by workers.

    A straight line through the medians, over 1 / workers, by least squares. The
    interval is a bootstrap: draw as many rounds as there were, with repetition, and
    fit them again, `redone` times. With one number of workers every share fits.
    """
    if len(seconds) < 2:
        raise ValueError(
            "one number of workers: every serial share explains the same one time"
        )
    dice, rounds = np.random.default_rng(1), len(next(iter(seconds.values())))
    line = _line(seconds, range(rounds))
    shares = []
    for _ in range(redone):
        serial, parallel = _line(seconds, dice.integers(rounds, size=rounds))
        shares.append(serial / (serial + parallel))
    low, high = np.quantile(shares, [0.025, 0.975])
    return SerialShareFit(*line, float(low), float(high))


def _line(seconds: Mapping[float, list[float]], rounds) -> tuple[float, float]:
    medians = [median(t[r] for r in rounds) for t in seconds.values()]
    parallel, serial = np.polyfit([1 / workers for workers in seconds], medians, 1)
    return float(serial), float(parallel)


def worker_counts_for_share(most: int) -> list[int]:
    """To find the serial share: 1, 2, 3, 4 workers, then doubling, and `most`."""
    return sorted({k for k in (1, 2, 3, 4, 8, 16, 32) if k < most} | {most})
