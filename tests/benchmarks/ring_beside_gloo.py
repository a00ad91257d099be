"""Time our ring all-reduce against the library's, on two ranks.

Run:      python tests/benchmarks/ring_beside_gloo.py
Look for: the last column, ours / library. In each round both sum a tensor of the same
          size, one after the other; the ratio is that of the medians. 16 MB is the size
          that lesson 10b shows.
Try:      --rounds 100 on a machine that others use too.
"""

import torch

from parallel_by_hand.collectives.all_reduce_four_ways import time_beside_library
from sidebyside import positive_int, program_parser, run_ranks

MEGABYTES = [0.0001, 0.01, 1, 16, 64]


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=positive_int, default=2, help="default: 2")
    parser.add_argument("--rounds", type=positive_int, default=20, help="default: 20")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.ranks} ranks, {args.rounds} rounds")
    print("      size        ours     library   ours / library")
    for size in MEGABYTES:
        ours, library = run_ranks(
            time_beside_library,
            int(size * 1e6) // 4,
            args.rounds,
            world_size=args.ranks,
            timeout=600,
        )[0]
        print(
            f"{size:7g} MB {1e3 * ours:8.2f} ms {1e3 * library:8.2f} ms"
            f" {ours / library:12.2f} ×",
            flush=True,
        )


if __name__ == "__main__":
    main()
