"""Dropout in a split block: where ranks must draw equal numbers, and where their own.

Run:      python demos/tensor_parallel/dropout_streams.py
Look for: among the split neurons each rank needs a stream of its own: with equal
          streams, neurons of different ranks are always dropped together. After the
          sum all ranks hold the same numbers and need equal streams: with streams of
          their own, the replicas drift apart, without any error.
Try:      --rate 0.1. The drift is smaller, and as wrong.
"""

from itertools import product

import torch

from parallel_by_hand.tensor_parallel.dropout_streams import (
    dropped_together,
    train_with_streams,
)
from sidebyside import between, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--rate", type=between(0.01, 0.9), default=0.5)
    rate = parser.parse_args().rate
    print("                                    first neurons       replicas after")
    print("among neurons    after the sum      dropped together    10 steps")
    for inside, after in product(("equal", "own"), repeat=2):
        ranks = run_ranks(train_with_streams, inside, after, rate, 10)
        zeros = run_ranks(dropped_together, inside, rate)
        both = int((zeros[0] & zeros[1]).sum())
        equal = "equal" if torch.equal(*ranks) else "apart"
        print(f"{inside:<16} {after:<18} {both:4} of 1000        {equal}")


if __name__ == "__main__":
    run_program(main)
