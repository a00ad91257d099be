"""Train a network that is too large for one device on several, equal after every step.

Run:      python demos/model_parallel/model_parallel.py
          torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/model_parallel/model_parallel.py   (one line)
Look for: one device with the budget fails, and says where. Cut over two ranks, the same
          network trains within the same budget, and after each step its parameters are
          those of the unsplit network.
Try:      --layers 3 5: a cut in another place. --layers 3 3 2: three ranks.
          --budget-mb 10: now even half of the network is too large.
"""

import os

from parallel_by_hand.memory.device_memory import DeviceFull
from parallel_by_hand.model_parallel.cut_training import (
    LAYERS,
    CutNotes,
    gap_of_histories,
    train_part,
)
from sidebyside import (
    RankFailed,
    at_least,
    between,
    positive_int,
    program_parser,
    run_program,
    run_ranks,
)


def print_memory_of_ranks(counts: list[int], parts: list) -> None:
    print("rank  layers  parameters  gradients  optimiser  activations   peak   (MB)")
    for rank, (layers, part) in enumerate(zip(counts, parts, strict=True)):
        p, g, o, a, peak = (size / 1e6 for size in part.memory.values())
        print(
            f"{rank:4} {layers:7} {p:11.2f} {g:10.2f} {o:10.2f} {a:12.2f} {peak:6.2f}"
        )


def train_whole(steps: int, budget: int) -> tuple[str, CutNotes]:
    """Runs in one rank: how one step within the budget fails; then all without one."""
    try:
        train_part([LAYERS], 1, budget)
        failure = "fits, too"
    except DeviceFull as full:
        failure = str(full)
    return failure, train_part([LAYERS], steps)


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    ranks = int(os.environ.get("WORLD_SIZE", 2))
    equal = [LAYERS * (r + 1) // ranks - LAYERS * r // ranks for r in range(ranks)]
    add(
        "--layers",
        type=positive_int,
        nargs="+",
        default=equal,
        help="layers of each rank; default: equal",
    )
    add("--steps", type=at_least(1, 500), default=10, help="default: 10")
    add("--budget-mb", type=between(0.1, 1e6), default=16, help="default: 16")
    args = parser.parse_args()
    if sum(args.layers) != LAYERS:
        parser.error(f"argument --layers: the sum must be {LAYERS}, not {args.layers}")
    if "WORLD_SIZE" in os.environ and len(args.layers) != ranks:
        parser.error(f"argument --layers: torchrun has started {ranks} ranks")

    first, budget = os.environ.get("RANK", "0") == "0", int(args.budget_mb * 1e6)
    try:
        parts = run_ranks(
            train_part, args.layers, args.steps, budget, world_size=len(args.layers)
        )
    except RankFailed as failed:
        print(f"cut over {len(args.layers)}: {failed}")
        return
    if not first:
        return
    print_memory_of_ranks(args.layers, parts)
    if "WORLD_SIZE" in os.environ:
        return  # the unsplit network needs a group of its own
    failure, whole = run_ranks(train_whole, args.steps, budget, world_size=1)[0]
    print(f"on one device: {failure}")
    gap = gap_of_histories(parts, whole)
    print(f"loss {parts[-1].losses[-1]:.6f}, without a budget {whole.losses[-1]:.6f}")
    print(f"after each of {args.steps} steps within {gap:.1e} of the unsplit network")
    sent = [f"{part.meter.bytes_sent // args.steps:,}" for part in parts]
    print(f"bytes sent per step, by rank: {', '.join(sent)}")


if __name__ == "__main__":
    run_program(main)
