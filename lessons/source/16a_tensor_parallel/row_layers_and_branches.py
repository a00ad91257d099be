"""What the checks of lesson 16a run in each rank, and what they note there."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn import functional as F

from demos.tensor_parallel.parts.split_layers import own_part
from sidebyside import MessageMeter, device


class TensorParallelNotes(NamedTuple):
    """What came back on one rank, what it should be, and what the rank has sent."""

    got: list  # a tensor, or the name of what is none
    expected: list[torch.Tensor]
    sent: list[list[str]]  # for each call, its collectives; "send" for a message
    changed: list[str]  # arguments that have other numbers than before
    not_awaited: int = 0  # sums that were begun, and that nobody has waited for
    unknown_to_autograd: bool = False  # it went back through dist.all_reduce itself


class TensorParallelCalls:
    """`with calls.noted():` around each call notes what this rank has sent in it."""

    def __init__(self):
        self.sent: list[list[str]] = []
        self.not_awaited = 0

    @contextmanager
    def noted(self) -> Iterator[None]:
        with MessageMeter() as meter, tensor_parallel_sums_under_way() as under_way:
            yield
        calls = [name for name in meter.collectives if name != "barrier"]
        self.sent.append(calls + ["send"] * meter.messages_sent)
        self.not_awaited += len(under_way)


@contextmanager
def tensor_parallel_sums_under_way() -> Iterator[list]:
    """The all-reduces that were begun inside and that nobody has asked for since."""
    under_way: list = []
    allreduce = dist.ProcessGroup.allreduce

    def begin(group, *args, **options):
        work = allreduce(group, *args, **options)
        if work is not None:
            under_way.append(work)
        return work

    def asking(method: Callable) -> Callable:
        def ask(work, *args, **options):
            under_way[:] = [other for other in under_way if other is not work]
            return method(work, *args, **options)

        return ask

    with ExitStack() as stack:
        patch = mock.patch.object
        stack.enter_context(patch(dist.ProcessGroup, "allreduce", begin))
        for name in ("wait", "is_completed", "get_future", "synchronize"):
            method = getattr(dist.Work, name)
            stack.enter_context(patch(dist.Work, name, asking(method)))
        yield under_way


def tensor_parallel_result(value: object) -> torch.Tensor | str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return value.detach().cpu().clone()


def tensor_parallel_inputs(
    seed: int, dtype: torch.dtype, *shapes: tuple
) -> list[torch.Tensor]:
    """The same on all ranks."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    return [tensor.to(device()) for tensor in drawn]


def changed_tensor_parallel_inputs(
    named: dict[str, torch.Tensor], kept: dict
) -> list[str]:
    return [name for name in named if not torch.equal(named[name], kept[name])]


# 16a-row ------------------------------------------------------------------------------


class RowLayerSize(NamedTuple):
    samples: int
    inputs: int
    outputs: int
    dtype: torch.dtype


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
    x, matrix, bias, gradient = tensor_parallel_inputs(seed, size.dtype, *shapes)
    named = {"x_part": own_part(x, 1), "rows": own_part(matrix, 0), "bias": bias}
    kept = {name: tensor.clone() for name, tensor in named.items()}
    calls = TensorParallelCalls()
    dist.barrier()
    with calls.noted():
        output = forward(*named.values())
    named["gradient"], kept["gradient"] = gradient, gradient.clone()
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
        calls.not_awaited,
    )


# 16a-conjugates -----------------------------------------------------------------------


class ConjugateKind(NamedTuple):
    shape: tuple[int, ...]
    dtype: torch.dtype
    contiguous: bool = True


def try_conjugates(
    copy, total, kinds: list[ConjugateKind]
) -> list[list[TensorParallelNotes]]:
    """For each kind of tensor: the copy alone, the sum alone, and both together."""
    found = []
    for seed, kind in enumerate(kinds):
        alone = [_try_conjugate(function, kind, seed) for function in (copy, total)]
        found.append([*alone, _try_both_conjugates(copy, total, kind, seed)])
    return found


def _tensor_for_conjugates(kind: ConjugateKind, seed: int) -> torch.Tensor:
    made = tensor_parallel_inputs(seed, kind.dtype, kind.shape)[0]
    if not kind.contiguous and dist.get_rank() % 2:
        made = made.T.contiguous().T  # equal numbers, in another order in memory
    return made


def _try_conjugate(function, kind: ConjugateKind, seed: int) -> TensorParallelNotes:
    """Each rank has numbers of its own, forward and backward: sums can be told."""
    ranks, own = dist.get_world_size(), 1 + dist.get_rank()
    base = _tensor_for_conjugates(kind, seed)
    x, gradient = (
        (own * base).requires_grad_(),
        own * _tensor_for_conjugates(kind, seed + 99),
    )
    kept = {"x": x.detach().clone(), "gradient": gradient.clone()}
    calls = TensorParallelCalls()
    dist.barrier()
    with calls.noted():
        y = function.apply(x)
    with calls.noted():
        got_gradient = torch.autograd.grad(
            y, x, gradient, retain_graph=True, allow_unused=True
        )[0]
    # backward may be called twice
    again = torch.autograd.grad(y, x, gradient, allow_unused=True)[0]
    named = {"x": x.detach(), "gradient": gradient}
    results = list(map(tensor_parallel_result, [y, got_gradient, again]))
    _conjugate_with_other_numbers(function, x, gradient)
    changed = changed_tensor_parallel_inputs(named, kept)
    for before, now in zip(results, [y, got_gradient, again], strict=True):
        if isinstance(now, torch.Tensor) and not torch.equal(
            before, tensor_parallel_result(now)
        ):
            changed.append("an earlier result")
    sums = ranks * (ranks + 1) // 2 * base, ranks * (ranks + 1) // 2 / own * gradient
    return TensorParallelNotes(
        results,
        list(map(tensor_parallel_result, [*sums, own * base, gradient])),
        calls.sent,
        changed,
        calls.not_awaited,
    )


def _conjugate_with_other_numbers(
    function, x: torch.Tensor, gradient: torch.Tensor
) -> None:
    other = (x.detach() + 1).requires_grad_()
    y = function.apply(other)
    torch.autograd.grad(y, other, gradient + 1, allow_unused=True)


def _try_both_conjugates(
    copy, total, kind: ConjugateKind, seed: int
) -> TensorParallelNotes:
    """x goes into a computation of each rank's own; the loss is of their sum."""
    x, weight = tensor_parallel_inputs(seed, kind.dtype, kind.shape, kind.shape)
    x.requires_grad_()
    calls = TensorParallelCalls()
    dist.barrier()
    with calls.noted():
        y = total.apply(torch.sin(copy.apply(x) * weight * (1 + dist.get_rank())))
    with calls.noted():
        y.sum().backward()  # its gradient is one number, seen many times
    alone = x.detach().clone().requires_grad_()
    ways = [torch.sin(alone * weight * (1 + r)) for r in range(dist.get_world_size())]
    expected = sum(ways)
    expected.sum().backward()
    return TensorParallelNotes(
        list(map(tensor_parallel_result, [y, x.grad])),
        list(map(tensor_parallel_result, [expected, alone.grad])),
        calls.sent,
        [],
        calls.not_awaited,
    )


# 16a-one-too-many ---------------------------------------------------------------------


class BranchSize(NamedTuple):
    samples: int
    inputs: int
    first: int  # neurons of the branches
    second: int
    dtype: torch.dtype


def try_branches(lean: Callable, sizes: list[BranchSize]) -> list[TensorParallelNotes]:
    return [_try_one_size_of_branches(lean, *entry) for entry in enumerate(sizes)]


def _try_one_size_of_branches(lean, seed: int, size: BranchSize) -> TensorParallelNotes:
    shapes = [(size.samples, size.inputs)]
    for neurons in (size.first, size.second):
        shapes += [(size.inputs, neurons), (neurons, size.inputs)]
    x, *matrices = tensor_parallel_inputs(seed, size.dtype, *shapes)
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
    got, warned = [y], False
    if isinstance(y, torch.Tensor) and y.requires_grad and y.shape == gradient.shape:
        with calls.noted(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y.backward(gradient)
        warned = any("autograd kernel" in str(warning.message) for warning in caught)
        got += [tensor.grad for tensor in mine]
    wanted = [own_part(m.grad, 1 - p % 2) for p, m in enumerate(whole[1:])]
    return TensorParallelNotes(
        list(map(tensor_parallel_result, got)),
        list(map(tensor_parallel_result, [expected, whole[0].grad, *wanted])),
        calls.sent,
        changed_tensor_parallel_inputs(
            dict(zip(kept, map(torch.Tensor.detach, mine), strict=True)), kept
        ),
        calls.not_awaited,
        warned,
    )


def _unsplit_branches(x, A1, B1, A2, B2) -> torch.Tensor:
    return x + F.gelu(x @ A1) @ B1 + torch.tanh(x @ A2) @ B2
