"""Count the bytes that a transformer layer keeps for its backward pass.

Run:      python demos/tensor_parallel/activation_bytes.py
Look for: with s positions, b sequences, width h, a heads and t ranks, the layer keeps
          what Korthikanti et al. say: s b h (34 + 5 a s / h) bytes in 16 bits. What is
          left over are the norms' statistics: on the CPU, 8 bytes for each position.
          Tensor parallel leaves 10 s b h whole; sequence parallel splits them too, if
          what was gathered is not kept but gathered again.
Try:      --dropout torch: on the CPU its mask has 2 bytes for each number, not 1.
          --attention fused: scores are not kept at all. --positions 256: scores grow
          with the square of the positions.
"""

from parallel_by_hand.tensor_parallel import split_block as blocks
from parallel_by_hand.tensor_parallel.activation_bytes import (
    LayerSize,
    kept_by_layer,
    published_bytes,
)
from sidebyside import at_least, program_parser, run_program, run_ranks

RANKS = 4


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--positions", type=at_least(1, 1024), default=64, help="s")
    add("--dropout", choices=("bytes", "torch", "none"), default="bytes")
    add("--attention", choices=("plain", "fused"), default="plain")
    args = parser.parse_args()
    if args.positions % RANKS:
        parser.error(f"argument --positions: must be a multiple of {RANKS} ranks")
    size = LayerSize(args.positions)
    print("bytes of a layer     each rank keeps  the formula    left over")
    for ranks in (1, RANKS):
        for way in blocks.ENDS if ranks > 1 else ("tensor",):
            given = way, size, args.dropout, args.attention
            kept = run_ranks(kept_by_layer, *given, world_size=ranks)[0]
            said = published_bytes(way, size, ranks)
            name = "whole" if ranks == 1 else way
            print(
                f"{name:<14}{ranks:2} ranks {kept:13,} {said:12,.0f}"
                f" {kept - said:12,.0f}"
            )


if __name__ == "__main__":
    run_program(main)
