"""Products of two matrices, by the CPU or sent to a GPU and back; both are timed."""

from functools import partial

import torch

from parallel_by_hand.collectives.link_cost import fit_link_cost
from parallel_by_hand.devices.roofline import (
    RooflineOperation,
    least_seconds,
    multiply_matrix,
)
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
        away = RooflineOperation(
            "away", 2 * n**3, 12 * n**2, partial(multiply_on_gpu, pair, back)
        )
        seconds = least_seconds([_multiply_here(pair), away])
        times[n] = tuple(seconds.values())
    return times


def measure_gpu_constants(pinned: bool, n: int = 1024) -> dict[str, float]:
    """Rates in operations per second; alpha and beta of a copy to the GPU."""
    products = least_seconds(
        [_multiply_here(torch.rand(2, n, n)), multiply_matrix(n, n)]
    )
    host, there = (product.flops / seconds for product, seconds in products.items())
    copies = least_seconds(_copy_to_gpu(size, pinned) for size in COPIES)
    alpha, beta = fit_link_cost(COPIES, list(copies.values()))
    return {"host": host, "device": there, "alpha": alpha, "beta": beta}


def _multiply_here(pair: torch.Tensor) -> RooflineOperation:
    n = pair.shape[-1]
    return RooflineOperation("here", 2 * n**3, 12 * n**2, partial(torch.mm, *pair))


def _copy_to_gpu(size: int, pinned: bool) -> RooflineOperation:
    source = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    target = torch.empty(size, dtype=torch.uint8, device=device())
    copy = partial(target.copy_, source, non_blocking=True)
    return RooflineOperation("copy to the GPU", 0, size, copy)
