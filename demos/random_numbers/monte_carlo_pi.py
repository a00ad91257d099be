"""Estimate pi from random points, with streams that are copied or independent.

Run:      python demos/random_numbers/monte_carlo_pi.py --workers 8
Look for: with copied streams all workers compute the same number, so the error of
          eight is the error of one. With spawned streams it shrinks as the theory
          says: four times as many workers, half the error.
          No number looks wrong by itself. Only the error that does not shrink tells.
Try:      --points 10_000. Copied streams gain by more points, never by more workers.
          --seed 1. Other numbers, the same story.
"""

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from sidebyside import at_least, machine
from sidebyside.programs import end_with_parent, run_program

Stream = np.random.Generator


def circle_hits(stream: Stream, points: int, repeats: int) -> np.ndarray:
    """How many of `points` random points in the unit square fall in the quarter circle.

    Repeated with new points, to see how far an estimate is off as a rule.
    """
    found = np.empty(repeats, dtype=np.int64)
    for repeat in range(repeats):
        x, y = stream.random((2, points))
        found[repeat] = np.count_nonzero(x * x + y * y < 1)
    return found


def copied(seed: int, workers: int) -> list[Stream]:
    """The same generator for each worker. It is copied when it is sent."""
    return [np.random.default_rng(seed)] * workers


def spawned(seed: int, workers: int) -> list[Stream]:
    """A generator of its own for each worker."""
    children = np.random.SeedSequence(seed).spawn(workers)
    return [np.random.default_rng(child) for child in children]


def pi_errors(hits_of_each: list[np.ndarray], points: int) -> list[float]:
    """The error of one worker, of two together, of three ..., as a rule.

    The mean over the repeats is taken of the squared error; the result is its root.
    """
    together = np.cumsum(hits_of_each, axis=0)
    counts = np.arange(1, len(together) + 1)[:, None]
    estimates = 4 * together / (points * counts)
    return np.sqrt(np.mean((estimates - math.pi) ** 2, axis=1)).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=at_least(1, 64), default=8)
    parser.add_argument(
        "--points", type=at_least(1, 1_000_000), default=1000, help="per worker"
    )
    parser.add_argument("--repeats", type=at_least(1, 1_000_000), default=1000)
    parser.add_argument("--seed", type=at_least(0), default=0)
    args = parser.parse_args()

    points, repeats = [args.points] * args.workers, [args.repeats] * args.workers
    processes = min(args.workers, machine().usable_cores)
    found = {}
    # "spawn" is the one start method that Linux, macOS and Windows have in common.
    with ProcessPoolExecutor(processes, get_context("spawn"), end_with_parent) as pool:
        for streams in copied, spawned:
            print(
                f"{streams.__name__} streams: first estimates of the workers",
                flush=True,
            )
            of_each = list(
                pool.map(circle_hits, streams(args.seed, args.workers), points, repeats)
            )
            print(" ", *(f"{4 * some[0] / args.points:.4f}" for some in of_each[:8]))
            found[streams.__name__] = pi_errors(of_each, args.points)

    print(f"\nerror of the estimate, root mean square of {args.repeats} repeats")
    print(f"{'workers':>9} {'copied':>9} {'spawned':>9} {'theory':>9}")
    together = 1
    while together <= args.workers:
        theory = math.sqrt(math.pi * (4 - math.pi) / (args.points * together))
        error = [found[name][together - 1] for name in ("copied", "spawned")]
        print(f"{together:>9} {error[0]:>9.4f} {error[1]:>9.4f} {theory:>9.4f}")
        together *= 2


if __name__ == "__main__":
    run_program(main)
