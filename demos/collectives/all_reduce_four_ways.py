"""All-reduce at the root, by a tree, round a ring, by halving and doubling: the bill.

Run:      python demos/collectives/all_reduce_four_ways.py --ranks 4
Look for: at the root, rank 0 sends nearly all the bytes. Every rank of a ring sends at
          most two tensors, in many steps. A tree takes few steps and sends whole
          tensors. Then the time of each over a simulated link of 10 ms a message and
          50 MB/s, predicted from steps and bytes, and as it came out.
Try:      --elements 1000, then --elements 500000: which way is the fastest changes.
          --ranks 8: the ring takes 14 steps, the tree 6. Here sleeping ranks share the
          cores, and the more of them there are, the later each wakes up.
"""

from parallel_by_hand.collectives.all_reduce_costs import (
    predicted_crossover,
    predicted_seconds,
)
from parallel_by_hand.collectives.all_reduce_four_ways import (
    meter_every_way,
    print_meters,
    time_over_paced_link,
)
from parallel_by_hand.collectives.all_reduces import ALL_REDUCES
from sidebyside import at_least, program_parser, run_program, run_ranks

ALPHA, BETA = 0.01, 2e-8  # of the paced link: seconds a message, and for each byte


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(1, 8), default=4)
    parser.add_argument("--elements", type=at_least(0, 4_000_000), default=50_000)
    args = parser.parse_args()
    size = 4 * args.elements

    print(f"{args.ranks} ranks, {size:,} bytes")
    print_meters(run_ranks(meter_every_way, args.elements, world_size=args.ranks))
    ways = list(ALL_REDUCES)
    timed = run_ranks(
        time_over_paced_link, ways, [size], ALPHA, BETA, 1, world_size=args.ranks
    )[0]
    print("\nway               predicted   simulated")
    for way in ways:
        expected = predicted_seconds(way, args.ranks, size, ALPHA, BETA)
        print(f"{way:<16} {1e3 * expected:>7.0f} ms {1e3 * timed[way, size]:>8.0f} ms")
    if args.ranks > 3:
        crossover = predicted_crossover(args.ranks, ALPHA, BETA)
        print(f"\nfrom {crossover:,.0f} bytes on, a ring is faster than a tree")


if __name__ == "__main__":
    run_program(main)
