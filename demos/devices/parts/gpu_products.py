"""Products of two matrices, by the CPU or sent to a GPU and back; both are timed."""

from collections.abc import Callable
from time import perf_counter

import torch

from demos.collectives.link_cost import fit_link_cost
from sidebyside import device

COPIES = [4**k for k in range(5, 14)]  # 1 kB to 64 MB


def multiply_on_gpu(pair: torch.Tensor, back: torch.Tensor) -> None:
    """`pair` (2, n, n) travels to the GPU, and its product comes back into `back`."""
    there = pair.to(device(), non_blocking=True)
    back.copy_(there[0] @ there[1], non_blocking=True)
    torch.cuda.synchronize()  # before that, `back` may be half full


def time_here_and_on_gpu(
    sizes: list[int], pinned: bool
) -> dict[int, tuple[float, float]]:
    """For each n, seconds of a product by the CPU, and of one sent to the GPU."""
    times = {}
    for n in sizes:
        pair = torch.rand(2, n, n, pin_memory=pinned)
        back = torch.empty(n, n, pin_memory=pinned)
        here = shortest_seconds(torch.mm, *pair)
        times[n] = here, shortest_seconds(multiply_on_gpu, pair, back)
    return times


def measure_gpu_constants(pinned: bool, n: int = 1024) -> dict[str, float]:
    """Rates in operations per second; alpha and beta of a copy to the GPU.

    alpha is in seconds, beta in seconds per byte. The rates are those of a product of
    n rows.
    """
    pair = torch.rand(2, n, n)
    there, seconds = pair.to(device()), []
    for size in COPIES:
        source = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        target = torch.empty(size, dtype=torch.uint8, device=device())
        seconds.append(shortest_seconds(target.copy_, source, True))  # non-blocking
    alpha, beta = fit_link_cost(COPIES, seconds)
    by_cpu, by_gpu = (2 * n**3 / shortest_seconds(torch.mm, *p) for p in (pair, there))
    return {"host": by_cpu, "device": by_gpu, "alpha": alpha, "beta": beta}


def shortest_seconds(run: Callable, *args) -> float:
    """The shortest of seven times, the GPU's queue empty before and after each."""
    seconds = []
    for _ in range(8):  # the first is not counted: memory is fetched
        torch.cuda.synchronize()
        began = perf_counter()
        run(*args)
        torch.cuda.synchronize()
        seconds.append(perf_counter() - began)
    return min(seconds[1:])
