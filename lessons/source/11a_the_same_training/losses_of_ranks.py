"""What the check of 11a-stop runs in each rank: steps whose losses are planned."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

from sidebyside import device


class StopCase(NamedTuple):
    """The losses of each rank, step by step; the last one stays."""

    losses: list[list[float]]
    target: float
    most: int


def try_stop(train_until: Callable, case: StopCase) -> tuple[object, int]:
    """What the answer returns in this rank, and how many steps it took."""
    mine, steps = case.losses[dist.get_rank()], 0

    def step() -> float:
        nonlocal steps
        if steps == case.most:
            raise RuntimeError(f"step {steps + 1}, and at most {case.most} are allowed")
        dist.all_reduce(torch.zeros(1, device=device()))  # a step of DDP has one, too
        steps += 1
        return mine[min(steps, len(mine)) - 1]

    return train_until(step, case.target, case.most), steps
