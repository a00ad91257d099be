"""Rows and arguments of the benchmarks that set ours beside torch's."""

import argparse
from statistics import median

import torch

from sidebyside import positive_int, program_parser


def parsed_arguments(manual: str, steps: int = 10) -> argparse.Namespace:
    add = (parser := program_parser(manual)).add_argument
    add("--ranks", type=positive_int, default=2, help="default: 2")
    add("--rounds", type=positive_int, default=20, help="default: 20")
    add("--steps", type=positive_int, default=steps, help=f"default: {steps}")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.ranks} ranks, {args.rounds} rounds")
    return args


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
