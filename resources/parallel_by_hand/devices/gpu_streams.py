"""Batches that travel to a GPU and are computed there, in one stream or in two."""

from collections.abc import Callable
from time import perf_counter

import torch

from sidebyside import device


def _copy_then_compute(host: list, weight: torch.Tensor) -> list[torch.Tensor]:
    """One stream: it copies, computes, copies, computes."""
    batches = (batch.to(device(), non_blocking=True) for batch in host)
    return [(batch @ weight).sum(0) for batch in batches]


def copy_one_ahead(host: list, weight: torch.Tensor) -> list[torch.Tensor]:
    """A stream that copies, an event, and a stream that waits for it and computes."""
    copier, sums = torch.cuda.Stream(), []
    for batch in host:
        with torch.cuda.stream(copier):
            there = batch.to(device(), non_blocking=True)
        torch.cuda.current_stream().wait_stream(copier)
        there.record_stream(torch.cuda.current_stream())  # keep it until it is used
        sums.append((there @ weight).sum(0))
    return sums


STREAMS = {"one stream": _copy_then_compute, "two streams": copy_one_ahead}


def time_streams(host: list, weight: torch.Tensor) -> dict[str, float]:
    """Seconds with one stream of the GPU and with two, for batches in pinned memory."""
    return {name: _seconds_of(way, host, weight) for name, way in STREAMS.items()}


def _seconds_of(way: Callable, host: list, weight: torch.Tensor) -> float:
    way(host, weight)  # the first time, memory is fetched
    torch.cuda.synchronize()
    began = perf_counter()
    way(host, weight)
    torch.cuda.synchronize()
    return perf_counter() - began
