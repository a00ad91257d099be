"""Attention over positions that lie on several ranks: keys and values go round a ring.

Run:      python demos/tensor_parallel/ring_attention.py
Look for: no rank ever holds the keys of all positions, and yet each has the attention
          of its own positions to all of them. What it has seen so far it keeps as two
          tensors: the mixture of the values, and the logarithm of the softmax's sum.
Try:      --causal. No position looks ahead, so the first rank has one piece of work and
          the last has all. --positions 512: bytes grow with the positions, scores held
          at a time with their square.
"""

from parallel_by_hand.tensor_parallel.ring_attention import try_ring_attention
from sidebyside import at_least, program_parser, run_program, run_ranks

RANKS, WIDTH = 4, 16


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--positions", type=at_least(1, 2048), default=64)
    parser.add_argument("--causal", action="store_true", help="no position looks ahead")
    args = parser.parse_args()
    if args.positions % RANKS:
        parser.error(f"argument --positions: must be a multiple of {RANKS} ranks")
    given = args.positions, WIDTH, args.causal
    print(f"{args.positions} positions on {RANKS} ranks, width {WIDTH}")
    print("rank  pieces seen  scores at a time  bytes sent in 32 bits  as the whole")
    found = run_ranks(try_ring_attention, *given, world_size=RANKS)
    for rank, one in enumerate(found):
        print(
            f"{rank:4} {one['pieces']:12} {one['scores']:17,} {one['bytes']:22,}"
            f"  {one['gap'] < 1e-10}"
        )


if __name__ == "__main__":
    run_program(main)
