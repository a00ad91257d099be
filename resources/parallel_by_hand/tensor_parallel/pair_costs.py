"""What the pair costs: arithmetic shared by N ranks, and two all-reduces for it.

A step of the pair, forward and backward, computes for `work` seconds on one rank and
all-reduces two tensors of `size` bytes, while nobody computes.
"""

from time import perf_counter, sleep

import torch
import torch.distributed as dist

from parallel_by_hand.collectives.all_reduce_costs import predicted_seconds
from parallel_by_hand.collectives.paced_link import paced_link
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from sidebyside import device, span

# TF/s in 16 bits, bytes per second each way (NVIDIA's H100 SXM data sheet: 900 GB/s
# for both ways together; a network card of 400 Gb/s for each GPU).
H100_FLOPS = 989e12
GPU_LINKS = {"NVLink, in a machine": 450e9, "400 Gb/s, across machines": 50e9}


def pair_seconds(ranks: int, work: float, size: int, alpha: float, beta: float):
    """Seconds for a step of the pair, with lesson 10b's cost of a ring."""
    return work / ranks + 2 * predicted_seconds("ring", ranks, size, alpha, beta)


def communication_over_arithmetic(
    ranks: int, width: int, flops: float, bytes_per_second: float
) -> float:
    """The pair's seconds of all-reduce for each of arithmetic; 16 bits, no latency.

    The pair's matrices hold 8 h^2 numbers. A sample takes 6 operations for each of them
    (2 forward, 4 backward), shared by N ranks. The two all-reduces carry 2 (N - 1) / N
    times 2 h bytes each. So the number of samples cancels.
    """
    arithmetic = 6 * 8 * width**2 / ranks / flops
    carried = 2 * 2 * (ranks - 1) / ranks * 2 * width
    return carried / bytes_per_second / arithmetic


def step_of_pair(work: float, size: int, alpha: float, beta: float) -> float:
    """Runs in each rank: seconds of a step over the paced link; computing is sleeping.

    A backward takes twice as long as a forward.
    """
    message = torch.zeros(size // 4, device=device())
    ranks = dist.get_world_size()
    with paced_link(alpha, beta), messages_of_ours():
        dist.barrier()
        began = perf_counter()
        for way, share in (("forward", 1 / 3), ("backward", 2 / 3)):
            with span(way):
                sleep(share * work / ranks)
            with span("wait"):
                dist.all_reduce(message)
    return perf_counter() - began
