"""What the check of the halo runs in each rank, and what it notes there."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from sidebyside import MessageMeter, device


class HaloCase(NamedTuple):
    """Images cut into strips: rows of each rank, and the other sizes."""

    rows: tuple[int, ...]
    batch: int = 2
    channels: int = 3
    width: int = 5


class HaloNotes(NamedTuple):
    """What one rank got forward and back, and what it sent."""

    forward: object  # a tensor, or the name of another type
    backward: Tensor | None
    there: MessageMeter
    back: MessageMeter | None


def strips_of_case(case: HaloCase, seed: int) -> tuple[Tensor, list[Tensor]]:
    """The whole images, and for each rank the gradient of what forward returns."""
    generator = torch.Generator().manual_seed(seed)
    sizes = case.batch, case.channels, sum(case.rows), case.width
    whole = torch.randn(sizes, generator=generator)
    gradients = [
        torch.randn(
            (case.batch, case.channels, rows + 2, case.width), generator=generator
        )
        for rows in case.rows
    ]
    return whole, gradients


def expected_of_halo(case: HaloCase, seed: int) -> list[tuple[Tensor, Tensor]]:
    """For each rank what forward and backward are to give: cut out of the whole."""
    whole, gradients = strips_of_case(case, seed)
    whole.requires_grad_()
    padded = torch.nn.functional.pad(whole, (0, 0, 1, 1))
    starts = [sum(case.rows[:rank]) for rank in range(len(case.rows))]
    windows = [
        padded[:, :, start : start + rows + 2]
        for start, rows in zip(starts, case.rows, strict=True)
    ]
    torch.autograd.backward(windows, gradients)
    return [
        (window.detach(), whole.grad[:, :, start : start + rows])
        for window, start, rows in zip(windows, starts, case.rows, strict=True)
    ]


def try_halo(halo: type, cases: list[HaloCase]) -> list[HaloNotes]:
    """Runs in each rank: forward and backward of the learner's function."""
    return [_try_case_of_halo(halo, case, seed) for seed, case in enumerate(cases)]


def _try_case_of_halo(halo: type, case: HaloCase, seed: int) -> HaloNotes:
    rank = dist.get_rank()
    whole, gradients = strips_of_case(case, seed)
    start = sum(case.rows[:rank])
    strip = whole.to(device())[:, :, start : start + case.rows[rank]]
    strip = strip.contiguous().requires_grad_()
    gradient = gradients[rank].to(device())
    dist.barrier()  # nobody is still busy with the case before
    with MessageMeter() as there:
        returned = halo.apply(strip)
    if not isinstance(returned, Tensor):
        return HaloNotes(type(returned).__name__, None, there, None)
    forward = returned.detach().cpu().clone()
    if returned.shape != gradient.shape or not returned.requires_grad:
        return HaloNotes(forward, None, there, None)
    with MessageMeter() as back:
        (returned * gradient).sum().backward()
    found = None if strip.grad is None else strip.grad.cpu().clone()
    return HaloNotes(forward, found, there, back)
