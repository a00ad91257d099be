"""What the checks of lesson 18a run in each rank."""

from typing import NamedTuple
from unittest import mock

import torch
import torch.distributed as dist

from sidebyside import MessageMeter, device

GATHERS = ("allgather", "_allgather_base", "all_gather_single")


class TwoLevelsNotes(NamedTuple):
    """What one rank saw of one call of the all-reduce."""

    before: torch.Tensor
    after: torch.Tensor
    returned: str  # what came back, as a text
    meter: MessageMeter


def two_levels_tensor(shape: tuple, dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers, so that every order of adding gives the same; each rank's own."""
    dice = torch.Generator().manual_seed(100 + dist.get_rank())
    return torch.randint(-1000, 1000, shape, generator=dice).to(device(), dtype)


def try_two_levels(two_levels, per_machine: int, cases: list) -> list[TwoLevelsNotes]:
    notes = []
    for shape, dtype in cases:
        tensor = two_levels_tensor(shape, dtype)
        before = tensor.clone()
        dist.barrier()
        with MessageMeter() as meter:
            returned = two_levels(tensor, per_machine)
        dist.barrier()
        said = "None" if returned is None else f"{type(returned).__name__}"
        notes.append(TwoLevelsNotes(before.cpu(), tensor.cpu(), said, meter))
    return notes


class TopKNotes(NamedTuple):
    """What one rank saw of one call of top-k."""

    candidates: torch.Tensor  # memory + gradient, before the call
    memory: torch.Tensor  # after it
    gradient_kept: bool
    memory_is_its_own: bool  # it does not share storage with what was returned
    returned: object
    collectives: list
    messages: int
    gathered: list[int]  # bytes of each tensor that was given away


def try_top_k(top_k_mean, gradients: list, memory: torch.Tensor, k: int) -> list:
    """Call it with each of this rank's gradients in turn, with one memory."""
    memory, notes = memory.to(device()).clone(), []
    gradients = [gradient.to(device()) for gradient in gradients]
    for gradient in gradients:
        given, candidates = gradient.clone(), memory + gradient
        dist.barrier()
        with MessageMeter() as meter, TopKGatherSizes() as sizes:
            returned = top_k_mean(given, memory, k)
        dist.barrier()
        notes.append(_notes_of_top_k(gradient, given, candidates, memory, returned))
        notes[-1] = notes[-1]._replace(
            collectives=meter.collectives,
            messages=meter.messages_sent,
            gathered=sizes.given,
        )
    return notes


def _notes_of_top_k(gradient, given, candidates, memory, returned) -> TopKNotes:
    own = True
    if isinstance(returned, torch.Tensor):
        storages = [t.untyped_storage().data_ptr() for t in (memory, given)]
        own = returned.untyped_storage().data_ptr() not in storages
        returned = returned.detach().cpu().clone()
    kept = torch.equal(gradient, given)
    candidates = candidates.cpu()
    return TopKNotes(candidates, memory.cpu().clone(), kept, own, returned, [], 0, [])


class TopKGatherSizes:
    """Inside it, the bytes of tensors that all-gathers are given."""

    def __init__(self):
        self.given: list[int] = []
        self.patches = []

    def __enter__(self) -> "TopKGatherSizes":
        for name in GATHERS:
            if hasattr(dist.ProcessGroup, name):
                original = vars(dist.ProcessGroup)[name]
                patch = mock.patch.object(
                    dist.ProcessGroup, name, self._noting(original)
                )
                patch.start()
                self.patches.append(patch)
        return self

    def __exit__(self, *exception) -> None:
        for patch in reversed(self.patches):
            patch.stop()

    def _noting(self, original):
        def noted(group, outputs, inputs, *args, **options):
            for tensor in inputs if isinstance(inputs, list | tuple) else [inputs]:
                self.given.append(tensor.numel() * tensor.element_size())
            return original.__get__(group)(outputs, inputs, *args, **options)

        return noted
