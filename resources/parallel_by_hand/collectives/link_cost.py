"""What a message costs: alpha + beta * bytes, measured and fitted."""

from time import perf_counter

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike

from parallel_by_hand.collectives.published_all_reduces import (
    H100_MICROSECONDS,
    H100_RANKS,
)
from sidebyside import device

LINK_SIZES = [4**k for k in range(3, 12)]  # 64 bytes to 4 MB


def time_messages(
    sizes: list[int], rounds: int = 12, there_and_back: int = 4
) -> dict[int, list[float]]:
    """Runs in two ranks: a link's seconds for one message of each size, by round."""
    other, seconds = 1 - dist.get_rank(), {size: [] for size in sizes}
    for turn in range(-1, rounds):  # the first is not counted
        for size in sizes:
            message = torch.zeros(size, dtype=torch.uint8, device=device())
            dist.barrier()
            began = perf_counter()
            for _ in range(there_and_back):
                if dist.get_rank() == 0:
                    dist.send(message, other)
                    dist.recv(message, other)
                else:
                    dist.recv(message, other)
                    dist.send(message, other)
            message[:1].sum().item()  # on a GPU: wait until it is there
            if turn >= 0:
                one_way = (perf_counter() - began) / (2 * there_and_back)
                seconds[size].append(one_way)
    return seconds


def fit_link_cost(sizes: ArrayLike, seconds: ArrayLike) -> tuple[float, float]:
    """alpha and beta (seconds, seconds per byte) of the line alpha + beta * size.

    Least squares of the *relative* errors: a microsecond too much for a small message
    counts as much as a millisecond for a large one. Otherwise the largest messages
    alone would decide, and alpha would be their noise.
    """
    size, time = np.array(sizes, float), np.array(seconds, float)
    line = np.column_stack([1 / time, size / time])
    alpha, beta = np.linalg.lstsq(line, np.ones_like(time), rcond=None)[0]
    return float(alpha), float(beta)


def typical_seconds(rounds: list[float] | np.ndarray, axis: int | None = None):
    """The lower quartile of a message's times: a machine can only add to them."""
    return np.quantile(rounds, 0.25, axis=axis)


def fit_with_intervals(seconds: dict[int, list[float]], draws: int = 200) -> dict:
    """The link's fit to lower quartiles, and the interval of nine out of ten redraws.

    A redraw takes as many rounds as there are, with repetition (the bootstrap of Efron,
    1979). It tells how far noise moves the constants, not whether the line is right.
    """
    sizes, table = list(seconds), np.array(list(seconds.values()))
    random = np.random.default_rng(0)
    redrawn = []
    for _ in range(draws):
        rounds = random.integers(table.shape[1], size=table.shape[1])
        redrawn.append(fit_link_cost(sizes, typical_seconds(table[:, rounds], axis=1)))
    alpha, beta = fit_link_cost(sizes, typical_seconds(table, axis=1))
    low, high = np.quantile(redrawn, [0.05, 0.95], axis=0)
    return {
        "alpha": alpha,
        "beta": beta,
        "alpha interval": (low[0], high[0]),
        "beta interval": (low[1], high[1]),
    }


def describe_link(fitted: dict) -> str:
    """alpha in microseconds and 1 / beta in MB/s, with their intervals."""
    low, high = (1e6 * alpha for alpha in fitted["alpha interval"])
    slow, fast = (1e-6 / beta for beta in reversed(fitted["beta interval"]))
    return (
        f"alpha: {1e6 * fitted['alpha']:.0f} µs for a message, "
        f"nine out of ten redraws from {low:.0f} to {high:.0f} µs\n"
        f"1/beta: {1e-6 / fitted['beta']:.0f} MB/s, "
        f"nine out of ten redraws from {slow:.0f} MB/s to {fast:.0f} MB/s"
    )


def gpu_link() -> tuple[list[float], list[float], list[float]]:
    """Each GPU link's published times: bytes in a row, seconds published and fitted.

    The bytes are 2 (N - 1) / N of the tensor, as in a ring. By this factor nccl-tests
    turns the tensor's bytes per second into its bus bandwidth.
    """
    factor = 2 * (H100_RANKS - 1) / H100_RANKS
    carried = [factor * size for size in H100_MICROSECONDS]
    seconds = [1e-6 * time for time in H100_MICROSECONDS.values()]
    alpha, beta = fit_link_cost(carried, seconds)
    return carried, seconds, [alpha + beta * size for size in carried]
