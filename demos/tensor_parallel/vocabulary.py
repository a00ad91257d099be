"""Split a vocabulary over ranks: the embedding, and a loss without the whole logits.

Run:      python demos/tensor_parallel/vocabulary.py
Look for: each rank has the logits of its own words. Gathering them all sends almost
          the whole vocabulary for each position. The parallel cross entropy sends three
          numbers instead, and gives the same loss and the same gradient.
Try:      --words 50000, then --ranks 8: the gathering grows with the vocabulary, and
          the three numbers stay three. --scale 1000: still no infinity.
"""

from parallel_by_hand.tensor_parallel.vocabulary import LOSSES, meter_loss
from sidebyside import at_least, between, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(1, 8), default=2)
    parser.add_argument("--words", type=at_least(1, 60_000), default=4096)
    parser.add_argument("--scale", type=between(0.1, 1000), default=1.0)
    args = parser.parse_args()
    if args.words % args.ranks:
        parser.error(f"argument --words: must be a multiple of --ranks, {args.ranks}")
    print(f"{args.words:,} words on {args.ranks} ranks, 32 positions")
    for way in LOSSES:
        given = way, args.words, 32, args.scale
        found = run_ranks(meter_loss, *given, world_size=args.ranks)[0]
        print(f"{way}: each rank sends {found['bytes']:,} bytes in 32 bits")
        for what in ("loss", "gradient"):
            print(f"  {what} of the whole vocabulary: {found[what] < 1e-10}")


if __name__ == "__main__":
    run_program(main)
