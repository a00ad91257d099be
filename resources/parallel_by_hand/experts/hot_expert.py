"""A step in which ranks wait for the one whose experts are chosen most."""

from time import sleep

import torch.distributed as dist

from parallel_by_hand.experts.text_experts import TextRun, shares_of_experts
from sidebyside import span


def loads_of_ranks(run: TextRun, ranks: int) -> list[float]:
    """What each rank's experts compute, if neighbours share a rank; 1 is a fair share.

    All wait for the busiest, so the largest is also how many times longer a step takes.
    """
    return (ranks * shares_of_experts(run).view(ranks, -1).sum(1)).tolist()


def sleep_through_experts(loads: list[float], seconds: float = 0.1) -> None:
    """Runs in each rank: the experts forward, and backward twice as long.

    A fair share takes `seconds` forward. Before and after lie all-to-alls, in which
    everybody waits for the last.
    """
    dist.barrier()
    for name, times in (("forward", 1), ("backward", 2)):
        with span(name):
            sleep(times * seconds * loads[dist.get_rank()])
        with span("wait"):
            dist.barrier()
