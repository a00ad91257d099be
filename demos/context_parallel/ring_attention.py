"""Attention over positions that lie on several ranks, in three ways.

Run:      python demos/context_parallel/ring_attention.py
Look for: in the ring no rank holds the keys of all positions, and yet outputs and
          gradients are those of the whole text. What a rank sends and keeps is given in
          units of its own queries. Zig-zag gives all ranks the same work.
Try:      --in-order: rank 0 has little to do, the last rank most. --ranks 4, and
          --heads-of-keys 1: now a gather sends less than an exchange of heads.
"""

from parallel_by_hand.context_parallel.bill_of_ways import bill_of_way
from parallel_by_hand.context_parallel.chunks import DEALS, pairs_to_compute
from sidebyside import at_least, program_parser, run_program, run_ranks

HEADS = 4


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--positions", type=at_least(1, 2048), default=64)
    parser.add_argument("--ranks", type=at_least(1, HEADS), default=2)
    parser.add_argument("--in-order", action="store_true", help="not in zig-zag")
    keys = "each is shared by equally many heads of queries"
    heads = at_least(1, HEADS)
    parser.add_argument("--heads-of-keys", type=heads, default=HEADS, help=keys)
    args = parser.parse_args()
    for option in "ranks", "heads_of_keys":
        if HEADS % vars(args)[option]:
            name = option.replace("_", "-")
            parser.error(f"argument --{name}: must divide {HEADS} heads of queries")
    if args.positions % (2 * args.ranks):
        parser.error(f"argument --positions: must be a multiple of {2 * args.ranks}")
    deal = "in order" if args.in_order else "zig-zag"
    pairs = pairs_to_compute(DEALS[deal], args.ranks, args.positions)
    work = ", ".join(f"{sum(of_rank):,}" for of_rank in pairs)
    print(f"{args.positions} positions {deal} on {args.ranks} ranks")
    print(f"pairs of a query and a key on each rank: {work}")
    print("way     sends forward  backward   keeps  as the whole")
    for way in ("ring", "gather", "heads"):
        if way == "ring" and args.heads_of_keys < HEADS:
            continue  # our ring needs a head of keys for each head of queries
        given = way, deal, args.positions, HEADS, args.heads_of_keys
        bill = run_ranks(bill_of_way, *given, world_size=args.ranks)[0]
        right = max(bill["output"], bill["gradients"]) < 1e-10
        print(
            f"{way:<8} {bill['forward']:12.2f} {bill['backward']:9.2f} "
            f"{bill['kept']:7.2f}  {right}"
        )


if __name__ == "__main__":
    run_program(main)
