"""Train digits with several replicas in processes, one message per step.

Run:      python demos/data_parallel/data_parallel_processes.py --ranks 2
          torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/data_parallel/data_parallel_processes.py   (one line)
Look for: every rank sends its gradients, and no weights. After every step all ranks
          hold the same weights, bit for bit, off from one process by rounding only.
Try:      --batch 65, which two ranks cannot share equally. Each rank weights its
          loss by the number of its images, and the result stays right.
"""

import os

from parallel_by_hand.data_parallel.data_parallel_processes import (
    train_beside_one_process,
)
from sidebyside import at_least, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(1, 64), default=2)
    parser.add_argument("--batch", type=at_least(1, 1415), default=64, help="of all")
    args = parser.parse_args()
    rows = run_ranks(train_beside_one_process, 8, args.batch, world_size=args.ranks)[0]
    if os.environ.get("RANK", "0") == "0":  # under torchrun every rank is here
        for step, (distance, equal, sent) in enumerate(rows, 1):
            print(f"step {step:3}  off by {distance:.0e}  ", end="")
            print(f"replicas equal: {equal}  message: {sent:,} bytes")


if __name__ == "__main__":
    run_program(main)
