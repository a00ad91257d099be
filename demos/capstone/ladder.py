"""Train one small transformer on Moby-Dick in eighteen ways that are all the same.

Run:      python demos/capstone/ladder.py --rungs "one process" "DDP (ours)" tensor
Look for: every rung equals the first after every step, but for rounding, and costs
          what was predicted before it was climbed, to the byte: what each rank sends in
          a step, and what it holds. Bytes and memory are those of the rank with most.
Try:      --rungs all --steps 20: the whole ladder, up to eight ranks (a minute or two).
          --bits 64: the difference is rounding, so it shrinks a billionfold.
"""

import torch

from parallel_by_hand.capstone.ladder_rungs import PLANS
from parallel_by_hand.capstone.ladder_table import TOLERANCE, climb_ladder, print_ladder
from sidebyside import at_least, program_parser, run_program

FEW = ["DDP (ours)", "tensor", "1F1B"]


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    names = [*PLANS, "all"]
    add("--rungs", nargs="+", choices=names, default=FEW, metavar="RUNG",
        help=f"some of: {', '.join(names)}; default: {', '.join(FEW)}")  # fmt: skip
    add("--steps", type=at_least(3, 1000), default=5, help="default: 5")
    add("--bits", choices=("32", "64"), default="32", help="default: 32")
    args = parser.parse_args()
    dtype = torch.float64 if args.bits == "64" else torch.float32
    chosen = list(PLANS) if "all" in args.rungs else args.rungs
    print(f"{args.steps} steps in {args.bits} bits, 8 excerpts of 16 characters each")
    rungs = climb_ladder(chosen, args.steps, dtype)
    climbed = print_ladder(rungs, TOLERANCE[dtype])
    gaps = [rung.gap for rung in climbed]
    largest = torch.tensor(gaps, dtype=torch.float64).max().item()
    print(f"largest difference of any number after any step: {largest:.1e}")


if __name__ == "__main__":
    run_program(main)
