"""What the checks of lesson 16a run in each rank, and what they note there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel.split_layers import own_part
from sidebyside import MessageMeter, device


class TensorParallelNotes(NamedTuple):
    """What came back on one rank, what it should be, and what the rank has sent."""

    got: list  # a tensor, or the name of what is none
    expected: list[torch.Tensor]
    sent: list[list[str]]  # for each call, its collectives; "send" for a message
    changed: list[str]  # arguments that have other numbers than before


class TensorParallelCalls:
    """`with calls.noted():` around each call notes what this rank has sent in it."""

    def __init__(self):
        self.sent: list[list[str]] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        with MessageMeter() as meter:
            yield
        calls = [name for name in meter.collectives if name != "barrier"]
        self.sent.append(calls + ["send"] * meter.messages_sent)


def tensor_parallel_result(value: object) -> torch.Tensor | str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return value.detach().cpu().clone()


def tensor_parallel_inputs(seed: int, *shapes: tuple) -> list[torch.Tensor]:
    """The same on all ranks."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(device()) for shape in shapes]


def changed_tensor_parallel_inputs(now: dict, kept: dict) -> list[str]:
    return [name for name in now if not torch.equal(now[name], kept[name])]


# 16a-row ------------------------------------------------------------------------------


class RowLayerSize(NamedTuple):
    samples: int
    inputs: int
    outputs: int


def try_row_layer(forward: Callable, backward: Callable, sizes: list[RowLayerSize]):
    return [_try_one_row_layer(forward, backward, *entry) for entry in enumerate(sizes)]


def _try_one_row_layer(
    forward, backward, seed: int, size: RowLayerSize
) -> TensorParallelNotes:
    shapes = [
        (size.samples, size.inputs),
        (size.inputs, size.outputs),
        (size.outputs,),
        (size.samples, size.outputs),
    ]
    x, matrix, bias, gradient = tensor_parallel_inputs(seed, *shapes)
    named = {
        "x_part": own_part(x, 1),
        "rows": own_part(matrix, 0),
        "bias": bias,
    }
    named["gradient"] = gradient
    kept = {name: tensor.clone() for name, tensor in named.items()}
    calls = TensorParallelCalls()
    dist.barrier()
    with calls.noted():
        output = forward(named["x_part"], named["rows"], bias)
    with calls.noted():
        gradients = backward(gradient, named["x_part"], named["rows"])
    if not isinstance(gradients, tuple | list) or len(gradients) != 3:
        gradients = [gradients]
    expected = [
        x @ matrix + bias,
        own_part(gradient @ matrix.T, 1),
        own_part(x.T @ gradient, 0),
        gradient.sum(0),
    ]
    return TensorParallelNotes(
        list(map(tensor_parallel_result, [output, *gradients])),
        list(map(tensor_parallel_result, expected)),
        calls.sent,
        changed_tensor_parallel_inputs(named, kept),
    )


# 16a-conjugates -----------------------------------------------------------------------


def try_conjugates(copy, total, shapes: list) -> list[list[TensorParallelNotes]]:
    """For each shape: the copy alone, the sum alone, and both together."""
    own, ranks = 1 + dist.get_rank(), dist.get_world_size()
    found = []
    for seed, shape in enumerate(shapes):
        base, gradient = tensor_parallel_inputs(seed, shape, shape)
        sum_of_all = ranks * (ranks + 1) // 2  # of what each rank multiplies by
        args = own * base, own * gradient
        copied = _try_conjugate(copy, *args, (own * base, sum_of_all * gradient))
        summed = _try_conjugate(total, *args, (sum_of_all * base, own * gradient))
        found.append([copied, summed, _try_both_conjugates(copy, total, base)])
    return found


def _try_conjugate(function, x, gradient, expected: tuple) -> TensorParallelNotes:
    """Each rank has numbers of its own, forward and backward: sums can be told."""
    x.requires_grad_()
    kept = {"x": x.detach().clone(), "gradient": gradient.clone()}
    calls = TensorParallelCalls()
    dist.barrier()
    with calls.noted():
        y = function.apply(x)
    with calls.noted():
        (of_x,) = torch.autograd.grad(y, x, gradient, allow_unused=True)
    return TensorParallelNotes(
        list(map(tensor_parallel_result, [y, of_x])),
        list(map(tensor_parallel_result, expected)),
        calls.sent,
        changed_tensor_parallel_inputs({"x": x.detach(), "gradient": gradient}, kept),
    )


def _try_both_conjugates(copy, total, weight: torch.Tensor) -> TensorParallelNotes:
    """x goes into a computation of each rank's own; the loss is of their sum."""
    x = torch.cos(weight).requires_grad_()
    calls = TensorParallelCalls()
    dist.barrier()
    with calls.noted():
        y = total.apply(torch.sin(copy.apply(x) * weight * (1 + dist.get_rank())))
    with calls.noted():
        y.sum().backward()
    alone = x.detach().clone().requires_grad_()
    ways = [torch.sin(alone * weight * (1 + r)) for r in range(dist.get_world_size())]
    expected = sum(ways)
    expected.sum().backward()
    return TensorParallelNotes(
        list(map(tensor_parallel_result, [y, x.grad])),
        list(map(tensor_parallel_result, [expected, alone.grad])),
        calls.sent,
        [],
    )


# 16a-one-too-many ---------------------------------------------------------------------


class BranchSize(NamedTuple):
    samples: int
    inputs: int
    first: int  # neurons of the branches
    second: int


def try_branches(lean: Callable, sizes: list[BranchSize]) -> list[TensorParallelNotes]:
    return [_try_one_size_of_branches(lean, *entry) for entry in enumerate(sizes)]


def _try_one_size_of_branches(lean, seed: int, size: BranchSize) -> TensorParallelNotes:
    shapes = [(size.samples, size.inputs)]
    for neurons in (size.first, size.second):
        shapes += [(size.inputs, neurons), (neurons, size.inputs)]
    x, *matrices = tensor_parallel_inputs(seed, *shapes)
    whole = [tensor.clone().requires_grad_() for tensor in (x, *matrices)]
    expected = _unsplit_branches(*whole)
    gradient = torch.cos(expected.detach())
    expected.backward(gradient)
    parts = [own_part(m, 1 - place % 2) for place, m in enumerate(matrices)]
    mine = [tensor.clone().requires_grad_() for tensor in (x, *parts)]
    kept = {"x": x, **{f"matrix {place}": part for place, part in enumerate(parts)}}
    calls = TensorParallelCalls()
    dist.barrier()
    with calls.noted():
        y = lean(mine[0], tuple(mine[1:3]), tuple(mine[3:]))
    with calls.noted():
        y.backward(gradient)
    wanted = [own_part(m.grad, 1 - p % 2) for p, m in enumerate(whole[1:])]
    now = dict(zip(kept, map(torch.Tensor.detach, mine), strict=True))
    return TensorParallelNotes(
        list(map(tensor_parallel_result, [y, *(tensor.grad for tensor in mine)])),
        list(map(tensor_parallel_result, [expected, whole[0].grad, *wanted])),
        calls.sent,
        changed_tensor_parallel_inputs(now, kept),
    )


def _unsplit_branches(x, A1, B1, A2, B2) -> torch.Tensor:
    return x + F.gelu(x @ A1) @ B1 + torch.tanh(x @ A2) @ B2
