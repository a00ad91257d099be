"""The whole model and its momentum, collected from ranks that hold any part of it.

How a strategy cuts a model is not written down a second time here. The same wrappers
cut a model whose parameters are numbered 1, 2, 3, ...: then each rank reads from what
it got which numbers of the whole model it holds. 0 stands for padding.
"""

import copy
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

MODEL = "model"  # the parameters, beside the averages' own names


class WholeState(NamedTuple):
    """The whole state that a resumed training needs, whichever strategy saved it."""

    step: int  # steps that are taken
    numbers: dict[str, Tensor]  # MODEL, and averages: vectors as `parameters()`, on CPU


class Addresses(NamedTuple):
    """Places in the whole model, counted from 1, of what one rank has."""

    held: Tensor  # of the parameters that it keeps between two steps
    updated: list[Tensor]  # of each tensor that its optimiser updates


def _local_numbers(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor, in one row: of a DTensor, its own shard."""
    local = getattr(tensor, "to_local", lambda: tensor)()
    return local.detach().flatten()


def flat_numbers(tensors: Iterable[Tensor]) -> Tensor:
    """For the whole state: this rank's numbers of some tensors, in one row."""
    return torch.cat([_local_numbers(tensor) for tensor in tensors])


def copy_with_numbered_parameters(model: nn.Sequential) -> nn.Sequential:
    """A copy whose parameters are 1, 2, 3, ...: it says who holds what of the whole."""
    numbered = copy.deepcopy(model).double()
    total = sum(p.numel() for p in model.parameters())
    numbers = torch.arange(1, total + 1, dtype=torch.float64)
    nn.utils.vector_to_parameters(
        numbers.to(next(model.parameters()).device), numbered.parameters()
    )
    return numbered


def _updated_tensors(training) -> list[Tensor]:
    return [p for group in training.optimizer.param_groups for p in group["params"]]


def parameter_numbers_in_training(numbered) -> Addresses:
    """Which numbers of the whole model a rank holds, as a numbered model shows."""
    updated = [_local_numbers(p).long().cpu() for p in _updated_tensors(numbered)]
    return Addresses(flat_numbers(numbered.held()).long().cpu(), updated)


def _averages_of(optimizer: torch.optim.Optimizer, tensor: Tensor) -> dict[str, Tensor]:
    """What the optimiser keeps for each number of a tensor, such as Adam's averages."""
    kept = optimizer.state.get(tensor, {})
    return {
        name: value
        for name, value in kept.items()
        if torch.is_tensor(value) and value.shape == tensor.shape
    }


def collect_whole_state(training, step: int) -> WholeState:
    """Called by all ranks alike, after `step` steps: the same state on each of them."""
    mine = []
    for tensor, places in zip(
        _updated_tensors(training), training.addresses.updated, strict=True
    ):
        parts = {MODEL: tensor} | _averages_of(training.optimizer, tensor)
        rows = {name: _local_numbers(part).cpu() for name, part in parts.items()}
        mine.append((places, rows))
    of_all = [mine]
    if dist.is_initialized():
        of_all = [mine] * dist.get_world_size()
        dist.all_gather_object(of_all, mine)
    pieces = [piece for of_one in of_all for piece in of_one]
    last = max(int(places.max()) for places, _ in pieces if len(places))
    whole: dict[str, Tensor] = {}
    for places, rows in pieces:
        for name, row in rows.items():  # place 0 is padding
            empty = row.new_full((last + 1,), torch.nan)
            whole.setdefault(name, empty)[places] = row
    return WholeState(step, {name: row[1:].clone() for name, row in whole.items()})


def load_whole_model(model: nn.Module, state: WholeState) -> None:
    """Put the numbers of a state into a model that is not cut yet."""
    like = next(model.parameters())
    nn.utils.vector_to_parameters(state.numbers[MODEL].to(like), model.parameters())


def load_averages(training, state: WholeState) -> None:
    """Give this rank's optimiser its part of the whole state: averages, count of steps.

    A state without averages is taken as it is: the optimiser begins anew.
    """
    averages = {name: row for name, row in state.numbers.items() if name != MODEL}
    tensors = _updated_tensors(training) if averages else []
    for tensor, places in zip(tensors, training.addresses.updated, strict=False):
        kept = {"step": torch.tensor(float(state.step))}
        for name, row in averages.items():
            kept[name] = torch.zeros_like(tensor).detach()
            padded = torch.cat([row.new_zeros(1), row])
            _local_numbers(kept[name]).copy_(padded[places])
        training.optimizer.state[tensor] = kept
