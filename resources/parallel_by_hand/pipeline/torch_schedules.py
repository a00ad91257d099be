"""The schedules of torch.distributed.pipelining as plans that ours can read."""

import re

import torch.distributed as dist
from torch import nn

from parallel_by_hand.model_parallel.split_by_torch import import_pipelining
from parallel_by_hand.pipeline.schedules import Schedule
from sidebyside import device, run_ranks

TORCH_SCHEDULES = {  # and whether a rank's second stage lies on the way back, as in a V
    "LoopedBFS": False,
    "Interleaved1F1B": False,
    "InterleavedZeroBubble": False,
    "ZBVZeroBubble": True,
    "DualPipeV": True,
}


def torch_schedule(name: str, ranks: int, microbatches: int) -> Schedule:
    """What torch's `Schedule{name}` has each of `ranks` do with two stages per rank.

    `name` is one of TORCH_SCHEDULES. torch writes I where the first part of a backward
    stands, ours B; a whole backward beside such parts becomes B and W. Where torch runs
    a forward and a backward together (DualPipeV), the forward comes first here.
    Raises ValueError, with torch's words, where torch refuses the numbers.
    """
    orders, problem = run_ranks(_torch_order, name, microbatches, world_size=ranks)[0]
    if problem:
        raise ValueError(problem)
    has_parts = any("I" in action for order in orders for action in order)
    schedule = []
    for order in orders:
        ours = []
        for stage, kind, microbatch in re.findall(
            r"(\d+)([FIBW])(\d+)", " ".join(order)
        ):
            for part in "BW" if kind == "B" and has_parts else kind.replace("I", "B"):
                ours.append(f"{stage}{part}{microbatch}")
        schedule.append(ours)
    return schedule


def _torch_order(name: str, microbatches: int) -> tuple[list[list[str]], str]:
    """Runs in each rank: torch's list for all ranks, or why torch refuses."""
    pipelining = import_pipelining()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    second = 2 * ranks - 1 - rank if TORCH_SCHEDULES[name] else ranks + rank
    stages = [
        pipelining.PipelineStage(nn.Identity(), stage, 2 * ranks, device())
        for stage in (rank, second)
    ]
    make = getattr(pipelining, f"Schedule{name}")
    try:
        schedule = make(stages, microbatches, loss_fn=nn.functional.mse_loss)
    except ValueError as problem:
        return [], str(problem)
    order = schedule.pipeline_order
    return [[str(a) for a in order[r] if a is not None] for r in range(ranks)], ""
