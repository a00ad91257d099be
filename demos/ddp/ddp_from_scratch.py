"""Train digits with a DistributedDataParallel of our own, and check every step.

Run:      python demos/ddp/ddp_from_scratch.py --ranks 2
          torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/ddp/ddp_from_scratch.py   (one line)
Look for: each rank computes the gradient of its share of the batch, and yet the loss
          is the single process's loss and the parameters are its parameters, but for
          rounding. Between the ranks there is no difference at all, not in one bit.
Try:      --bucket-bytes 1. Every gradient travels alone: more all-reduces, same result.
"""

import os

from parallel_by_hand.ddp.ddp_from_scratch import train_alone_and_with_ddp
from sidebyside import at_least, positive_int, program_parser, run_program, run_ranks

STEPS = 23  # an epoch


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--ranks", type=at_least(1, 64), default=2, help="default: 2")
    add("--bucket-bytes", type=positive_int, default=2048, help="default: 2048")
    args = parser.parse_args()
    trained = train_alone_and_with_ddp, STEPS, args.bucket_bytes
    rows = run_ranks(*trained, world_size=args.ranks)[0]
    if os.environ.get("RANK", "0") == "0":  # under torchrun every rank is here
        print("step  samples  loss alone  together  difference  replicas")
        for step, (samples, alone, together, difference, equal) in enumerate(rows, 1):
            print(
                f"{step:4}  {samples:7}  {alone:10.6f}  {together:8.6f}"
                f"  {difference:10.1e}  {'equal' if equal else 'DIFFERENT'}"
            )


if __name__ == "__main__":
    run_program(main)
