"""Draw any of the eight collectives: who holds what before and after, and who sends.

Run:      python demos/collectives/collectives.py --operation all_to_all
Look for: piece c of rank r holds (c + 1) * 10 ** r, so 300 is piece 2 of rank 2. In a
          sum each digit says which rank was counted. Torch's operation
          and ours, made of sends and receives, end with the same; the meter has
          counted what each rank sent in ours.
Try:      --operation reduce_scatter --ranks 3, then all_gather, then all_reduce: the
          first two, one after the other, give what the third gives.
          --save all_to_all.png writes the picture to a file.
"""

import torch.distributed as dist

from parallel_by_hand.collectives import eight_collectives
from parallel_by_hand.collectives.collective_writing import collective_text
from parallel_by_hand.collectives.who_holds_what import (
    EIGHT,
    MOST_RANKS,
    run_collectives,
)
from sidebyside import (
    at_least,
    consecutive_steps,
    picture_file,
    program_parser,
    run_program,
)


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--operation", choices=[*EIGHT, "all"], default="all")
    parser.add_argument("--ranks", type=at_least(1, MOST_RANKS), default=4)
    parser.add_argument("--size", type=at_least(1, 1_000_000), default=1)
    parser.add_argument("--save", type=picture_file, help="a file for the picture")
    args = parser.parse_args()

    names = EIGHT if args.operation == "all" else [args.operation]
    runs = run_collectives(names, dist, args.ranks, args.size)
    ours = run_collectives(names, eight_collectives, args.ranks, args.size)
    for name in names:
        print(collective_text(name, runs[name]))
        same = "the same" if ours[name].after == runs[name].after else "NOT the same"
        sent = ", ".join(f"{meter.bytes_sent:,}" for meter in ours[name].meters)
        steps = consecutive_steps(ours[name].meters)
        print(f"Ours ends with {same}. Bytes sent by each rank: {sent}.")
        print(f"Messages that must follow one another: {steps}.\n")
    if args.save:
        from parallel_by_hand.collectives.collective_drawing import draw_collectives

        draw_collectives(runs).savefig(args.save)
        print(f"drawn in {args.save}")


if __name__ == "__main__":
    run_program(main)
