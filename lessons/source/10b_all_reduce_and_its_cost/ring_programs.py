"""What the check of the ring runs in each rank, and what it notes there."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

from sidebyside import MessageMeter, device


class AllReduceRingNotes(NamedTuple):
    """One rank's tensor before and after, and all that it sent and received."""

    before: torch.Tensor
    after: torch.Tensor
    meter: MessageMeter


def try_all_reduce_ring(
    ring: Callable, shapes: list[tuple]
) -> list[AllReduceRingNotes]:
    """Sum the example's tensor over the ranks, then one of each shape, by `ring`."""
    rank, exact = dist.get_rank(), torch.float64
    dice = torch.Generator().manual_seed(rank)
    tensors = [torch.full((dist.get_world_size(),), 10.0**rank, dtype=exact)]
    tensors += [torch.randn(shape, generator=dice, dtype=exact) for shape in shapes]
    return [_try_tensor(ring, tensor) for tensor in tensors]


def _try_tensor(ring: Callable, tensor: torch.Tensor) -> AllReduceRingNotes:
    tensor = tensor.to(device())
    before = tensor.cpu().clone()
    dist.barrier()  # nobody is still busy with the case before
    with MessageMeter() as meter:
        ring(tensor)
    return AllReduceRingNotes(before, tensor.cpu().clone(), meter)
