"""Run a program with a known serial part, and find that part from its times alone.

Run:      python demos/performance/serial_share.py --serial 20
Look for: the speedup stays behind the number of workers, and the fit finds the serial
          share again, from nothing but the times. It finds a bit more than was put
          in: waiting for each other is serial too.
Try:      --serial 50. What do 8 workers gain, and what would 1000?
          --compute: the workers compute instead of sleeping, at most one per core.
          --grow: the parallel part grows with the workers, and the time stays.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from time import perf_counter, sleep
from typing import NamedTuple

import numpy as np
import torch.distributed as dist

from demos.performance.speedup_laws import amdahl
from sidebyside import at_least, machine, run_ranks
from sidebyside.programs import run_program

STEPS = 30_000_000  # for 1 of work; about a second on one core of today


def compute(work: float) -> None:
    """Keep one core busy: the same work takes longer on a slower machine."""
    total = 0
    for step in range(round(work * STEPS)):
        total += step


def run_serial_and_parallel(
    work, serial, parallel, counts, rounds, grow
) -> dict[int, list[float]]:
    """Every worker calls this. The times of each round, by the number of workers."""
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
    """Seconds of each round for each number of workers in `counts`.

    Worker 0 does `work(serial)` alone. Then the workers share the parallel part; if
    it is to `grow`, each of them does all of `parallel`.
    """
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
    line = _line_of_serial_share(seconds, range(rounds))
    shares = []
    for _ in range(redone):
        serial, parallel = _line_of_serial_share(
            seconds, dice.integers(rounds, size=rounds)
        )
        shares.append(serial / (serial + parallel))
    low, high = np.quantile(shares, [0.025, 0.975])
    return SerialShareFit(*line, float(low), float(high))


def _line_of_serial_share(
    seconds: Mapping[float, list[float]], rounds
) -> tuple[float, float]:
    medians = [median(t[r] for r in rounds) for t in seconds.values()]
    parallel, serial = np.polyfit([1 / workers for workers in seconds], medians, 1)
    return float(serial), float(parallel)


def worker_counts_for_share(most: int) -> list[int]:
    """1, 2, 3, 4, then doubling, and `most` itself."""
    return sorted({k for k in (1, 2, 3, 4, 8, 16, 32) if k < most} | {most})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--serial", type=at_least(0, 100), default=20, help="per cent of the work")
    add("--workers", type=at_least(1, 16), default=8, help="at most")
    add("--rounds", type=at_least(2, 100), default=5)
    add("--compute", action="store_true", help="instead of sleeping")
    add("--grow", action="store_true", help="the parallel part, with the workers")
    args = parser.parse_args()

    most, share = args.workers, args.serial / 100
    if args.compute:
        most = min(most, machine().usable_cores)
    kind = "computing" if args.compute else "sleeping"
    about = f"{args.serial} parts of 100 are serial, {kind}, {args.rounds} rounds"
    print(about, flush=True)
    work, counts = compute if args.compute else sleep, worker_counts_for_share(most)
    program = work, 0.25 * share, 0.25 * (1 - share), counts
    seconds = time_serial_and_parallel(*program, args.rounds, args.grow)

    law = "Gustafson" if args.grow else "Amdahl"
    print(f"{'workers':>7} {'time':>10} {'speedup':>9} {law:>9}")
    first = median(seconds[1])
    for workers, times in seconds.items():
        done = share + (1 - share) * workers if args.grow else 1  # work, in T(1)
        time, ideal = median(times), done if args.grow else amdahl(share, workers)
        print(f"{workers:>7} {time:8.3f} s {done * first / time:7.2f} × {ideal:7.2f} ×")
    if args.grow:
        print("(speedup: the grown work, had one worker done it, over the time)")
    elif len(counts) > 1:
        print(fit_serial_share(seconds))
    else:
        print("one number of workers: every serial share explains the same one time")


if __name__ == "__main__":
    run_program(main)
