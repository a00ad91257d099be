"""Split the MLP half of a transformer block over ranks, the naive way and as the pair.

Run:      python demos/tensor_parallel/tensor_parallel_block.py
Look for: both give the outputs and gradients of the unsplit block. The pair, columns
          then rows, calls one all-reduce forward and one backward. The naive way
          gathers after each layer, calls four collectives and sends almost four times
          as many bytes.
Try:      --ranks 8, then --samples 512. Bytes grow with the samples, and hardly with
          the ranks. Weights are never sent.
"""

from parallel_by_hand.tensor_parallel.mlp import ARRANGEMENTS, meter_block
from sidebyside import at_least, program_parser, run_program, run_ranks

WIDTH = 64


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(1, 16), default=2)
    parser.add_argument("--samples", type=at_least(1, 4096), default=32)
    args = parser.parse_args()
    if WIDTH % args.ranks:
        parser.error(f"argument --ranks: must divide the width, {WIDTH}")
    print(f"{args.ranks} ranks, {args.samples} samples, width {WIDTH}")
    for arrangement in ARRANGEMENTS:
        metered = meter_block, arrangement, WIDTH, args.samples
        found = run_ranks(*metered, world_size=args.ranks)[0]
        forward, backward = (", ".join(calls) or "none" for calls in found["calls"])
        print(f"{arrangement}: each rank sends {found['bytes']:,} bytes in 32 bits")
        print(f"  forward   {forward}\n  backward  {backward}")
        for what, gap in found["gaps"].items():
            print(f"  {what} equal to the unsplit block's: {gap < 1e-10}")


if __name__ == "__main__":
    run_program(main)
