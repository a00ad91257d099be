"""What an update through a server costs: bytes and seconds, predicted and measured."""

from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist

from parallel_by_hand.collectives.paced_link import paced_link
from parallel_by_hand.parameter_server.server_and_workers import (
    letter_group,
    serve_in_step,
    work,
)
from sidebyside import MessageMeter


def predicted_server_seconds(
    workers: int, size: int, alpha: float, beta: float, servers: int = 1
) -> float:
    """T = alpha * messages + beta * bytes, for a server with one letter at a time."""
    return 2 * workers * (alpha + beta * size / servers)


def time_server_over_paced_link(
    servers: int,
    elements: int,
    alpha: float,
    beta: float,
    updates: int = 4,
    serve: Callable = serve_in_step,
) -> tuple[float, MessageMeter] | None:
    """Runs in each rank: a server's median seconds for an update, and its meter."""
    rank, ends = dist.get_rank(), []
    letter_group()
    dist.barrier()
    with paced_link(alpha, beta), MessageMeter() as meter:
        if rank >= servers:
            work(lambda parameters, version: 0 * parameters, range(servers), elements)
            return None
        workers = range(servers, dist.get_world_size())
        share = torch.zeros(elements).tensor_split(servers)[rank].clone()
        serve(share, workers, 0.0, updates, lambda *_: ends.append(perf_counter()))
    between = [after - before for before, after in pairwise(ends)]
    return median(between), meter
