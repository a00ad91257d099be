"""Ranks that train, of which one is late at every step."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, sleep

import torch
import torch.distributed as dist

from sidebyside import device, span

RANKS, LOAD, COMPUTE = 4, 0.01, 0.04  # seconds of each step


@contextmanager
def _timed_span(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """A span on the timeline, whose seconds are added up as well."""
    began = perf_counter()
    with span(name):
        yield
    seconds[name] += perf_counter() - began


def train_and_report(straggler: int, late: float, steps: int = 5) -> dict[str, float]:
    """Runs in each rank, one of them late: seconds it loaded, computed and waited."""
    seconds: dict[str, float] = dict.fromkeys(("load", "compute", "wait"), 0.0)
    gradient = torch.ones(64, device=device())
    dist.barrier()
    for _ in range(steps):
        with _timed_span("load", seconds):
            sleep(LOAD + late * (dist.get_rank() == straggler))
        with _timed_span("compute", seconds):
            sleep(COMPUTE)
        with _timed_span("wait", seconds):
            dist.all_reduce(gradient)
            gradient[0].item()  # on a GPU it is only now that Python waits
    return seconds


def print_reports(reports: list[dict[str, float]]) -> None:
    """A line for each rank beside the straggler: milliseconds of each kind."""
    for rank, seconds in enumerate(reports):
        parts = [f"{name} {1000 * time:4.0f} ms" for name, time in seconds.items()]
        print(f"rank {rank}: {', '.join(parts)}")
