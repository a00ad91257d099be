"""What the checks of lesson 16c run in each rank, and what they note there."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from parallel_by_hand.context_parallel.seen_keys import attend_to_piece
from sidebyside import MessageMeter, device


class RoundNotes(NamedTuple):
    """What came back on one rank, what it should be, and what the rank has sent."""

    got: object  # tensors, or names of other types
    expected: object  # a tensor, or three of them
    bytes_sent: int
    largest: int  # numbers in the largest tensor that was made
    collectives: list[str]
    changed: list[str]


class LargestTensor(TorchDispatchMode):
    """`numbers` is the size of the largest tensor that torch makes inside."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.numbers = max(self.numbers, leaf.numel())
        return result


def _plain(value: object) -> object:
    """Tensors on the CPU, a tuple as a list, and the type's name of all else."""
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return value.detach().cpu() if isinstance(value, Tensor) else type(value).__name__


def _note_round(
    call: Callable, arguments: dict[str, Tensor], whole: list[Tensor], pair: bool
) -> RoundNotes:
    """`call` gets copies of `arguments`; with `pair`, mixed and log_sum as one."""
    given = {name: tensor.clone() for name, tensor in arguments.items()}
    args = list(given.values())
    if pair:
        args[3:5] = [(args[3], args[4])]
    dist.barrier()
    with MessageMeter() as meter, LargestTensor() as largest:
        got = call(*args)
    return RoundNotes(
        _plain(got),
        _plain(whole),
        meter.bytes_sent,
        largest.numbers,
        meter.collectives,
        [name for name, t in given.items() if not torch.equal(t, arguments[name])],
    )


def _whole_text(positions: int, d: int, tensors: int) -> list[Tensor]:
    """Tensors of all ranks' positions, the same on all ranks."""
    generator = torch.Generator().manual_seed(positions)
    shape = tensors, positions * dist.get_world_size(), d
    numbers = torch.randn(shape, generator=generator, dtype=torch.double)
    return list(numbers.to(device()))


def _own(tensor: Tensor) -> Tensor:
    return tensor.chunk(dist.get_world_size())[dist.get_rank()].contiguous()


SIZES = (3, 2), (12, 4)  # positions on each rank, numbers at each


def try_attention_rounds(attend_round: Callable) -> list[RoundNotes]:
    found = []
    for size in SIZES:
        whole = _whole_text(*size, 3)
        mine = dict(zip(("query", "key", "value"), map(_own, whole), strict=True))
        expected = _own(attend_to_piece(*whole)[0])
        found.append(_note_round(attend_round, mine, expected, pair=False))
    return found


def try_gradient_rounds(gradients_round: Callable) -> list[RoundNotes]:
    found = []
    for size in SIZES:
        *whole, gradient = _whole_text(*size, 4)
        leaves = [tensor.requires_grad_() for tensor in whole]
        seen = attend_to_piece(*leaves)
        seen[0].backward(gradient)
        names = "query", "key", "value", "mixed", "log_sum", "gradient"
        tensors = [_own(t.detach()) for t in (*whole, *seen, gradient)]
        mine = dict(zip(names, tensors, strict=True))
        expected = [_own(leaf.grad) for leaf in leaves]
        found.append(_note_round(gradients_round, mine, expected, pair=True))
    return found
