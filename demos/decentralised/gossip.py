"""Peers on a ring average with their two neighbours, until all agree.

Run:      python demos/decentralised/gossip.py --ranks 8
Look for: the distance to the mean falls by the same factor in each round, in the end:
          by the second-largest eigenvalue modulus of the mixing matrix.
Try:      --self-weight 0 on an even ring: they never agree. On an odd one they do.
          --pairs: no rounds, one pair of neighbours at a time.
"""

from parallel_by_hand.decentralised.gossip import (
    agreement_factor,
    distances,
    gossip_in_pairs,
    gossip_values,
    pair_factor,
    random_neighbours,
    ring_mixing_matrix,
)
from sidebyside import at_least, between, program_parser, run_program, run_ranks

ROUNDS = 24


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(2, 16), default=8)
    parser.add_argument("--self-weight", type=between(0, 1), default=1 / 3)
    parser.add_argument("--pairs", action="store_true", help="out of step")
    args = parser.parse_args()

    if args.pairs:
        pairs = random_neighbours(args.ranks, ROUNDS * args.ranks)
        far = distances(run_ranks(gossip_in_pairs, pairs, world_size=args.ranks))
        far = far[:: args.ranks]  # as many messages as a round has
        print(f"expected: the square falls by {pair_factor(args.ranks):.4f} a meeting")
        print(f"a row is {args.ranks} meetings")
    else:
        weights = ring_mixing_matrix(args.ranks, args.self_weight)
        of_ranks = run_ranks(gossip_values, ROUNDS, weights, world_size=args.ranks)
        far = distances(of_ranks)
        print(f"predicted factor per round: {agreement_factor(weights):.4f}")
    print("round   distance   factor")
    print(f"{0:5} {far[0]:10.6f}")
    for turn in range(1, len(far)):
        if turn <= 4 or turn % 3 == 0:
            factor = far[turn] / far[turn - 1] if far[turn - 1] > 1e-12 else 0.0
            print(f"{turn:5} {far[turn]:10.6f} {factor:8.4f}")


if __name__ == "__main__":
    run_program(main)
