"""Peers of which one is slow: in rounds, and out of step."""

from threading import Lock, Thread
from time import perf_counter, sleep

import torch
import torch.distributed as dist

from parallel_by_hand.decentralised.gossip import (
    gossip_round,
    gossip_weights_of_rank,
    ring_mixing_matrix,
)
from sidebyside import device, span

GOODBYE = float("nan")


def in_step(seconds: list[float], until: float) -> tuple[int, float]:
    """Runs in each rank: (steps made, its number), with a round after each step."""
    rank, steps = dist.get_rank(), 0
    row = gossip_weights_of_rank(ring_mixing_matrix(dist.get_world_size()))
    mine = torch.full((1,), 10.0**rank, device=device())
    rounds = int(until / max(seconds))  # all make as many as the slowest can
    dist.barrier()
    for _ in range(rounds):
        with span("step"):
            sleep(seconds[rank])
        with span("wait"):
            gossip_round(mine, row)
            mine.sum().item()  # on a GPU: until it is there
        steps += 1
    return steps, mine.item()


def out_of_step(seconds: list[float], until: float) -> tuple[int, float]:
    """Runs in each rank: (steps made, its number), each at its own pace.

    On a ring of even length, even ranks ask and odd ranks answer, so that no circle of
    peers can wait for each other (AD-PSGD, Lian et al., 2018). After a step an even
    rank swaps numbers with a neighbour, left and right in turn, and both take the mean.
    An odd rank has a thread for each neighbour that answers while it goes on working.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    neighbours = sorted({(rank - 1) % ranks, (rank + 1) % ranks})
    mine, lock = torch.full((1,), 10.0**rank, device=device()), Lock()

    def answer(other: int) -> None:
        asked = torch.empty_like(mine)
        while True:
            dist.recv(asked, other)
            if asked.isnan():
                return
            with lock:  # nobody else changes it between the answer and the mean
                dist.send(mine, other)
                mine.add_(asked).div_(2)

    threads = [Thread(target=answer, args=(n,), daemon=True) for n in neighbours]
    dist.barrier()
    began, steps = perf_counter(), 0
    if rank % 2:
        for thread in threads:
            thread.start()
    while not steps or perf_counter() - began < until - seconds[rank] / 2:
        with span("step"):
            sleep(seconds[rank])
        steps += 1
        if rank % 2 == 0:
            other, theirs = neighbours[steps % len(neighbours)], torch.empty_like(mine)
            with span("wait"):
                dist.send(mine, other)
                dist.recv(theirs, other)
            mine.add_(theirs).div_(2)
    for other in neighbours if rank % 2 == 0 else ():
        dist.send(torch.full_like(mine, GOODBYE), other)
    for thread in threads if rank % 2 else ():
        thread.join()
    return steps, mine.item()
