"""What the check of the ring runs in each rank, and what it notes there."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

from sidebyside import MessageMeter, device


class AllReduceRingCase(NamedTuple):
    """A tensor to sum: its shape and type."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class AllReduceRingNotes(NamedTuple):
    """One rank's tensor before and after, and all that it sent and received."""

    before: torch.Tensor
    after: torch.Tensor
    meter: MessageMeter
    returned: str | None


def try_all_reduce_ring(
    ring: Callable, cases: list[AllReduceRingCase]
) -> list[AllReduceRingNotes]:
    """Sum each case's tensor over the ranks with the learner's function."""
    return [
        _try_case_of_all_reduce(ring, case, seed) for seed, case in enumerate(cases)
    ]


def _try_case_of_all_reduce(
    ring: Callable, case: AllReduceRingCase, seed: int
) -> AllReduceRingNotes:
    generator = torch.Generator().manual_seed(100 * seed + dist.get_rank())
    if case.dtype == torch.int64:
        tensor = torch.randint(-1000, 1000, case.shape, generator=generator)
    else:
        tensor = torch.randn(case.shape, generator=generator, dtype=case.dtype)
    tensor = tensor.to(device())
    before = tensor.cpu().clone()
    dist.barrier()  # nobody is still busy with the case before
    with MessageMeter() as meter:
        returned = ring(tensor)
    shown = None if returned is None else type(returned).__name__
    return AllReduceRingNotes(before, tensor.cpu().clone(), meter, shown)
