"""Compute here, or send the data to a faster device and the result back: what pays."""

from collections.abc import Callable
from time import perf_counter

import torch
import torch.distributed as dist

from parallel_by_hand.collectives.link_cost import (
    fit_link_cost,
    time_messages,
    typical_seconds,
)
from parallel_by_hand.devices.roofline import least_seconds, multiply_matrix
from sidebyside import device, run_ranks

MESSAGES = [64, 4096, 65_536, 1_048_576]  # bytes
GPU_SIZES = [2**k for k in range(4, 11)]  # rows: 16 to 1024
Rows = list[list[float]]


def multiply_in_python(left: Rows, right: Rows) -> Rows:
    """What the host computes itself: a matrix product at which it is slow."""
    columns = list(zip(*right, strict=True))
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in columns]
        for row in left
    ]


MULTIPLY: dict[str, Callable] = {"python": multiply_in_python, "torch": torch.mm}


def multiply_in_other_rank(pair: torch.Tensor) -> torch.Tensor | None:
    """Runs in two ranks: rank 0 copies `pair` (2, n, n) and gets its product back."""
    if dist.get_rank() == 0:
        dist.send(pair, 1)
        product = torch.empty_like(pair[0])
        dist.recv(product, 1)
        return product
    dist.recv(pair, 0)
    dist.send(pair[0] @ pair[1], 0)
    return None


def time_here_and_away(
    sizes: list[int], host: str = "python", rounds: int = 7
) -> dict[int, tuple[float, float]]:
    """Runs in two ranks, host and device: for each n, seconds to compute here, to copy.

    The shortest time of the rounds: a busy machine only ever adds to a time.
    """
    times = {}
    for n in sizes:
        pair = torch.rand(2, n, n, device=device())
        here = tuple(pair.tolist()) if host == "python" else tuple(pair)
        multiply = MULTIPLY[host]
        seconds = [], []
        for turn in range(rounds + 1):  # the first is not counted
            dist.barrier()
            moments = [perf_counter()]
            if dist.get_rank() == 0:
                product = multiply(*here)
                if host == "torch":
                    product[0, 0].item()  # on a GPU: wait until it is there
            moments.append(perf_counter())
            product = multiply_in_other_rank(pair)
            if product is not None:
                product[0, 0].item()  # on a GPU: wait until it is there
            moments.append(perf_counter())
            if turn:
                seconds[0].append(moments[1] - moments[0])
                seconds[1].append(moments[2] - moments[1])
        times[n] = min(seconds[0]), min(seconds[1])
    return times


def _measure_peak() -> float:
    """Runs in each rank: operations per second, where it computes."""
    product = multiply_matrix(512, 512)
    return product.flops / least_seconds([product])[product]


def measure_constants(host: str = "python") -> dict[str, float]:
    """For copy or compute: operations per second, alpha and beta of a message."""
    n, seconds = 24, []
    matrix = torch.rand(n, n)
    rows = matrix.tolist()
    for _ in range(9):
        began = perf_counter()
        multiply_in_python(rows, rows)
        seconds.append(perf_counter() - began)
    peak = run_ranks(_measure_peak)[1]
    timed = run_ranks(time_messages, MESSAGES, 8)[0]
    alpha, beta = fit_link_cost(MESSAGES, [typical_seconds(t) for t in timed.values()])
    by_host = 2 * n**3 / min(seconds) if host == "python" else peak
    return {"host": by_host, "device": peak, "alpha": alpha, "beta": beta}


def predict_here_and_away(n: int, costs: dict[str, float]) -> tuple[float, float]:
    """Seconds to compute 2 n^3 operations, or to copy 12 n^2 bytes in two messages."""
    operations, sent = 2 * n**3, 12 * n**2
    link = 2 * costs["alpha"] + costs["beta"] * sent
    return operations / costs["host"], link + operations / costs["device"]


def first_that_pays(times: dict[int, tuple[float, float]]) -> int | None:
    """From which size on it pays to copy instead of to compute, up to the last."""
    first = None
    for n in sorted(times, reverse=True):
        if times[n][1] >= times[n][0]:
            break
        first = n
    return first
