"""Let each rank train by itself, and average the models only now and then.

Run:      python demos/decentralised/local_sgd.py --ranks 4
Look for: with a meeting every 4 steps each rank sends a quarter of the bytes, and the
          loss is hardly worse. Between meetings the replicas drift apart.
Try:      --sorted. Now each rank has its own digits and sees no others: rare meetings
          cost more. Or --outer, which adds a momentum between the meetings (DiLoCo).
"""

from parallel_by_hand.decentralised.local_sgd import (
    LOCAL_BATCH,
    drift,
    loss_of,
    mean_bytes_sent,
    train_with_each,
)
from sidebyside import at_least, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(1, 16), default=4)
    parser.add_argument("--steps", type=at_least(1, 2000), default=128)
    parser.add_argument("--sorted", action="store_true", help="each has its own digits")
    parser.add_argument("--outer", action="store_true", help="momentum of meetings")
    args = parser.parse_args()

    print(f"{args.ranks} ranks, {args.steps} steps of {LOCAL_BATCH} images each")
    print("meeting every   bytes sent per rank   loss   farthest apart")
    distances = [every for every in (1, 4, 16, 64) if every <= args.steps]
    options = args.steps, args.sorted, args.outer
    of_ranks = run_ranks(train_with_each, distances, *options, world_size=args.ranks)
    for every, runs in zip(distances, zip(*of_ranks, strict=True), strict=True):
        loss, apart = loss_of(runs[0].history[-1]), drift(runs).max()
        print(f"{every:13} {mean_bytes_sent(runs):21,} {loss:6.3f} {apart:16.3f}")


if __name__ == "__main__":
    run_program(main)
