"""Estimate pi from random points, with streams that are copied or independent.

Run:      python demos/random_numbers/monte_carlo_pi.py --workers 8
Look for: with copied streams all workers compute the same number, so the error of
          eight is the error of one. With spawned streams it shrinks as the theory
          says: four times as many workers, half the error.
          No number looks wrong by itself. Only the error that does not shrink tells.
Try:      --points 10_000. Copied streams gain by more points, never by more workers.
"""

import math
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from parallel_by_hand.random_numbers.monte_carlo_pi import (
    circle_hits,
    copied,
    pi_errors,
    spawned,
)
from sidebyside import at_least, machine, program_parser
from sidebyside.programs.run_program import end_with_parent, run_program

REPEATS = 1000


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--workers", type=at_least(1, 64), default=8)
    add("--points", type=at_least(1, 1_000_000), default=1000, help="per worker")
    args = parser.parse_args()

    points, repeats = [args.points] * args.workers, [REPEATS] * args.workers
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
                pool.map(circle_hits, streams(0, args.workers), points, repeats)
            )
            print(" ", *(f"{4 * some[0] / args.points:.4f}" for some in of_each[:8]))
            found[streams.__name__] = pi_errors(of_each, args.points)

    print(f"\nerror of the estimate, root mean square of {REPEATS} repeats")
    print(f"{'workers':>9} {'copied':>9} {'spawned':>9} {'theory':>9}")
    together = 1
    while together <= args.workers:
        theory = math.sqrt(math.pi * (4 - math.pi) / (args.points * together))
        error = [found[name][together - 1] for name in ("copied", "spawned")]
        print(f"{together:>9} {error[0]:>9.4f} {error[1]:>9.4f} {theory:>9.4f}")
        together *= 2


if __name__ == "__main__":
    run_program(main)
