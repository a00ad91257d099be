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
    """Sum a tensor of each shape over the ranks with the learner's function."""
    return [_try_shape_of_tensor(ring, shape) for shape in shapes]


def _try_shape_of_tensor(ring: Callable, shape: tuple) -> AllReduceRingNotes:
    generator = torch.Generator().manual_seed(dist.get_rank())
    tensor = torch.randn(shape, generator=generator, dtype=torch.float64)
    tensor = tensor.to(device())
    before = tensor.cpu().clone()
    dist.barrier()  # nobody is still busy with the case before
    with MessageMeter() as meter:
        ring(tensor)
    return AllReduceRingNotes(before, tensor.cpu().clone(), meter)
