"""All-reduce at the root, by a tree, round a ring, by halving and doubling: the bill.

Run:      python demos/collectives/all_reduce_four_ways.py --ranks 4
Look for: at the root, rank 0 sends nearly all the
          bytes. Every rank of a ring sends at most two tensors, in many steps. A tree
          takes few steps and sends whole tensors. Then the time of each over a paced
          link (simulated), predicted from steps and bytes, and measured.
Try:      --elements 1000, then --elements 500000: which way is the fastest changes.
          --ranks 8: the ring takes 14 steps, the tree 6. Here sleeping ranks share the
          cores, and the more of them there are, the later each wakes up.
"""

import argparse

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
from sidebyside import at_least, between, run_program, run_ranks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=at_least(1, 8), default=4)
    parser.add_argument("--elements", type=at_least(0, 4_000_000), default=50_000)
    parser.add_argument(
        "--alpha", type=between(0, 0.1), default=0.01, help="seconds for each message"
    )
    parser.add_argument(
        "--megabytes-per-second", type=between(5, 100_000), default=50, help="1 / beta"
    )
    args = parser.parse_args()
    beta, size = 1e-6 / args.megabytes_per_second, 4 * args.elements

    print(f"{args.ranks} ranks, {size:,} bytes")
    print_meters(run_ranks(meter_every_way, args.elements, world_size=args.ranks))
    pace = args.alpha, beta
    ways = list(ALL_REDUCES)
    timed = run_ranks(
        time_over_paced_link, ways, [size], *pace, 1, world_size=args.ranks
    )[0]
    print("\nway               predicted   over the paced link")
    for way in ways:
        expected = predicted_seconds(way, args.ranks, size, *pace)
        print(f"{way:<16} {1e3 * expected:>7.0f} ms {1e3 * timed[way, size]:>18.0f} ms")
    if args.ranks > 3 and args.alpha:
        crossover = predicted_crossover(args.ranks, args.alpha, beta)
        print(f"\nfrom {crossover:,.0f} bytes on, a ring is faster than a tree")


if __name__ == "__main__":
    run_program(main)
