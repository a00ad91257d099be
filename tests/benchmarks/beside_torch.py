"""Steps of ours and of torch's, timed in turn, for the benchmarks beside."""

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist

from sidebyside import positive_int, program_parser


def parsed_arguments(manual: str, steps: int = 10) -> argparse.Namespace:
    add = (parser := program_parser(manual)).add_argument
    add("--ranks", type=positive_int, default=2, help="default: 2")
    add("--rounds", type=positive_int, default=20, help="default: 20")
    add("--steps", type=positive_int, default=steps, help=f"default: {steps}")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.ranks} ranks, {args.rounds} rounds")
    return args


def seconds_in_turn(
    kinds: dict[str, Callable[[], torch.Tensor]], rounds: int, steps: int
) -> dict[str, list[float]]:
    """Runs in each rank: for the same steps of each kind, round after round."""
    seconds = {kind: [] for kind in kinds}
    for turn in range(rounds + 1):
        for kind in kinds if turn % 2 else reversed(kinds):
            dist.barrier()
            began = perf_counter()
            for _ in range(steps):
                result = kinds[kind]()
            result.sum().item()  # wait for a GPU
            seconds[kind].append(perf_counter() - began)
    return {kind: times[1:] for kind, times in seconds.items()}  # the first: warm-up


def print_ratio(shape: tuple, seconds: dict[str, list[float]], steps: int) -> None:
    """A row with both, ours first in `seconds`, and ours / theirs in each round."""
    ratios = sorted(a / b for a, b in zip(*seconds.values(), strict=True))
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    ours, theirs = (1e3 * median(times) / steps for times in seconds.values())
    print(
        *(f"{number:6}" for number in shape),
        f"{theirs:10.2f} ms {ours:7.2f} ms {median(ratios):11.2f} ×",
        f"   {low:.2f} to {high:.2f}",
        flush=True,
    )
