"""The bill of each all-reduce: messages, bytes, steps, and seconds over a link."""

from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist

from parallel_by_hand.collectives.all_reduces import ALL_REDUCES, ring_all_reduce
from parallel_by_hand.collectives.paced_link import paced_link
from sidebyside import MessageMeter, consecutive_steps, device


def meter_all_reduce(all_reduce, elements: int) -> tuple[MessageMeter, torch.Tensor]:
    """Runs in each rank: what an all-reduce sends and receives, and the sum it gets.

    Rank r holds 10 ** r everywhere: each digit of a sum says who has been counted.
    """
    tensor = torch.full((elements,), 10.0 ** dist.get_rank(), device=device())
    with MessageMeter() as meter:
        all_reduce(tensor)
    return meter, tensor.cpu()


def meter_every_way(elements: int) -> dict[str, MessageMeter]:
    """Runs in each rank: the meter of each of the four ways to all-reduce."""
    return {
        way: meter_all_reduce(all_reduce, elements)[0]
        for way, all_reduce in ALL_REDUCES.items()
    }


def print_meters(ranks: list[dict[str, MessageMeter]]) -> None:
    """One line for each all-reduce: messages and bytes of ranks 0 and 1, and steps."""
    print("way               messages of rank 0, 1  bytes of rank 0, 1  steps")
    for way in ranks[0]:
        meters = [rank[way] for rank in ranks]
        messages = ", ".join(str(meter.messages_sent) for meter in meters[:2])
        sent = ", ".join(f"{meter.bytes_sent:,}" for meter in meters[:2])
        steps = consecutive_steps(meters)
        print(f"{way:<16} {messages:>22} {sent:>19} {steps:>6}")


def time_over_paced_link(
    ways: list[str], sizes: list[int], alpha: float, beta: float, rounds: int = 3
) -> dict[tuple[str, int], float]:
    """Runs in each rank: median seconds for each all-reduce and size, in bytes."""
    seconds = {(way, size): [] for way in ways for size in sizes}
    for _ in range(rounds):
        for way, size in seconds:
            tensor = torch.ones(size // 4, device=device())
            dist.barrier()
            began = perf_counter()
            with paced_link(alpha, beta):
                ALL_REDUCES[way](tensor)
            took = torch.tensor(perf_counter() - began, device=device())
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            seconds[way, size].append(took.item())
    return {case: median(times) for case, times in seconds.items()}


def time_beside_library(elements: int, rounds: int) -> tuple[float, float]:
    """Runs in each rank: median seconds of our ring all-reduce and the library's."""
    seconds = {ring_all_reduce: [], dist.all_reduce: []}
    for turn in range(-2, rounds):  # the first two are not counted
        for all_reduce, times in seconds.items():
            tensor = torch.ones(elements, device=device())
            dist.barrier()
            began = perf_counter()
            all_reduce(tensor)
            tensor[:1].sum().item()  # on a GPU: wait until it is there
            if turn >= 0:
                times.append(perf_counter() - began)
    ours, library = map(median, seconds.values())
    return ours, library


def found_crossover(sizes: list[int], one: list[float], other: list[float]) -> float:
    """The size from which another all-reduce is faster: a line between two sizes."""
    ahead = [a - b for a, b in zip(one, other, strict=True)]
    for place in range(len(sizes) - 1):
        before, after = ahead[place], ahead[place + 1]
        if before < 0 <= after:
            share = before / (before - after)
            return sizes[place] + share * (sizes[place + 1] - sizes[place])
    return float(sizes[0] if ahead[0] >= 0 else sizes[-1])
