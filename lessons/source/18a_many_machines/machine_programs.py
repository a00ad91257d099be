"""What the checks of lesson 18a run in each rank."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

from parallel_by_hand.machines.collective_bytes import CollectiveBytes
from sidebyside import MessageMeter, device


class TwoLevelsNotes(NamedTuple):
    """What one rank saw of one call of the all-reduce."""

    before: torch.Tensor
    after: torch.Tensor
    meter: MessageMeter


def try_two_levels(two_levels: Callable, per_machine: int, shapes: list) -> list:
    """Whole numbers, so that every order of adding gives the same; each rank's own.

    In the first shape they are all 10 ** rank: the sum shows who was counted.
    """
    rank, notes = dist.get_rank(), []
    dice = torch.Generator().manual_seed(100 + rank)
    for shape in shapes:
        numbers = torch.randint(-1000, 1000, shape, generator=dice)
        if not notes:
            numbers = torch.full(shape, 10**rank)
        tensor = numbers.to(device(), torch.float64)
        before = tensor.clone()
        dist.barrier()
        with MessageMeter() as meter:
            two_levels(tensor, per_machine)
        dist.barrier()
        notes.append(TwoLevelsNotes(before.cpu(), tensor.cpu(), meter))
    return notes


class TopKNotes(NamedTuple):
    """What one rank saw of one call of top-k."""

    candidates: torch.Tensor  # memory + gradient, before the call
    memory: torch.Tensor  # after it
    gradient_kept: bool
    returned: object
    meter: MessageMeter
    gathered: int  # bytes that this rank sends in all_gather


def try_top_k(top_k_mean: Callable, given: list, k: int) -> list[TopKNotes]:
    """Call it with each of this rank's gradients in turn, with one memory."""
    rows, before = given[dist.get_rank()]
    memory, notes = torch.tensor(before, device=device()), []
    for row in rows:
        gradient = torch.tensor(row, device=device())
        kept, candidates = gradient.clone(), (memory + gradient).cpu()
        dist.barrier()
        with MessageMeter() as meter, CollectiveBytes() as sent:
            returned = top_k_mean(gradient, memory, k)
        dist.barrier()
        if isinstance(returned, torch.Tensor):
            returned = returned.detach().cpu().clone()
        same, after = torch.equal(kept, gradient), memory.cpu().clone()
        notes.append(TopKNotes(candidates, after, same, returned, meter, sent.bytes))
    return notes
