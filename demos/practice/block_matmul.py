"""Multiply two matrices block by block in processes, and let the library do it.

Run:      python demos/practice/block_matmul.py --size 1000
Look for: with shared memory next to nothing is sent, and the blocks are done sooner
          than with pickled blocks. On a free machine the library is faster still,
          without any process: its threads share one memory, and it computes with
          blocks as well, so small that they stay in the cache of a core. "here" is the
          CPU time of this process: above 100 % it has used more than one core.
Try:      --cuts 8. 64 small blocks: more is sent, for the same product.
"""

import math
from statistics import median

import numpy as np

from parallel_by_hand.practice.block_matmul import BlockProduct, time_block_product
from sidebyside import at_least, machine, program_parser, run_program

ROUNDS = 3


def main() -> None:
    parser = program_parser(__doc__)
    cores = machine().usable_cores
    parser.add_argument("--size", type=at_least(2, 5000), default=1000)
    parser.add_argument("--cuts", type=at_least(1, 16), default=2)
    parser.add_argument("--workers", type=at_least(1, 64), default=min(cores, 8))
    args = parser.parse_args()
    if args.cuts > args.size:
        parser.error(f"argument --cuts: must be at most the size, {args.size}")

    work = BlockProduct(args.size, args.cuts, args.workers)
    ways = {
        "blocks sent": work.by_sending,
        "blocks shared": work.by_sharing,
        "library": work.by_library,
    }
    exact, moved = work.by_library(), work.bytes_moved()
    print(
        f"{args.size} x {args.size}, {len(work.places)} blocks, workers: {args.workers}"
    )
    with work:
        rounds = [
            {n: time_block_product(way) for n, way in ways.items()}
            for _ in range(ROUNDS)
        ]
        products = {name: np.copy(way()) for name, way in ways.items()}
    print(f"{'way':<14} {'bytes sent':>12} {'time':>10} {'here':>12}  right")
    for name in ways:
        wall = median(times[name][0] for times in rounds)
        busy = median(times[name][1] for times in rounds)
        right = np.allclose(products[name], exact, atol=1e-9 * math.sqrt(args.size))
        print(
            f"{name:<14} {moved[name]:>12,} {1000 * wall:7.1f} ms"
            f" {100 * busy:6.0f} % CPU  {'yes' if right else 'NO'}"
        )


if __name__ == "__main__":
    run_program(main)
