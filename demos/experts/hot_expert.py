"""Train a text model with experts in four ways, and see how long everybody waits.

Run:      python demos/experts/hot_expert.py
Look for: left alone, the router prefers a few experts. The rank that has them computes
          for all, while the others wait. A balancing loss or a bias keeps the shares
          equal, and so does DeepSeek-V3's bias with a small loss of each single text;
          the loss of the text is about the same here.
Try:      --ranks 8: each expert on a rank of its own, so the favourite alone sets the
          pace. --steps 20: the router has favourites already, with a remedy too.
"""

from parallel_by_hand.experts.hot_expert import loads_of_ranks
from parallel_by_hand.experts.text_experts import (
    share_dropped,
    shares_of_experts,
    train_all_ways,
)
from sidebyside import at_least, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--steps", type=at_least(20, 1000), default=200)
    parser.add_argument("--ranks", type=at_least(1, 8), default=4)
    args = parser.parse_args()
    if 8 % args.ranks:
        parser.error("argument --ranks: must divide 8 experts")
    head = f"eight experts on {args.ranks} ranks, {args.steps} steps of Moby-Dick"
    print(head, flush=True)
    print("balanced by  loss  largest share  dropped above 1.25 x fair  step's length")
    for way, run in train_all_ways(args.steps).items():
        loss = sum(run.losses[-20:]) / 20
        share = 100 * shares_of_experts(run).max().item()
        dropped = 100 * share_dropped(run, 1.25)
        length = max(loads_of_ranks(run, args.ranks))
        print(f"{way:<11} {loss:5.2f} {share:12.0f} % {dropped:24.1f} %", end=" ")
        print(f"{length:10.2f} x fair")


if __name__ == "__main__":
    run_program(main)
