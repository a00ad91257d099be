"""Split the MLP half of a transformer block over ranks, the naive way and as the pair.

Run:      python demos/tensor_parallel/tensor_parallel_block.py
Look for: both give the outputs and gradients of the unsplit block. The pair, columns
          then rows, calls one all-reduce forward and one backward. The naive way
          gathers after each layer, calls four collectives and sends almost four times
          as many bytes.
Try:      --ranks 8, then --samples 512. Bytes grow with the samples, and hardly with
          the ranks. Weights are never sent.
"""

import argparse

from parallel_by_hand.tensor_parallel.mlp import ARRANGEMENTS, meter_block
from sidebyside import at_least, run_program, run_ranks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--ranks", type=at_least(1, 16), default=2)
    add("--width", type=at_least(1, 2048), default=64, help="default: 64")
    add("--samples", type=at_least(1, 4096), default=32, help="default: 32")
    args = parser.parse_args()
    if args.width % args.ranks:
        parser.error(f"argument --width: must be a multiple of --ranks, {args.ranks}")
    print(f"{args.ranks} ranks, {args.samples} samples, width {args.width}")
    for arrangement in ARRANGEMENTS:
        found = run_ranks(
            meter_block,
            arrangement,
            args.width,
            args.samples,
            world_size=args.ranks,
        )[0]
        forward, backward = (", ".join(calls) or "none" for calls in found["calls"])
        print(f"{arrangement}: each rank sends {found['bytes']:,} bytes in 32 bits")
        print(f"  forward   {forward}\n  backward  {backward}")
        for what, gap in found["gaps"].items():
            print(f"  {what} equal to the unsplit block's: {gap < 1e-10}")


if __name__ == "__main__":
    run_program(main)
