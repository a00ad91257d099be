"""What the checks of lesson 14a run in each rank, and what they note there."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.model_parallel.cut_messages import receive_across_cut
from sidebyside import MessageMeter, device


class ChainNotes(NamedTuple):
    """What one rank saw: the gradient of each shape's weight, and what was sent."""

    gradients: list[Tensor | None]
    meter: MessageMeter
    unchanged: bool


def chain_inputs(shape: tuple[int, ...], ranks: int) -> tuple[Tensor, ...]:
    """The input and the weights of all ranks, the same everywhere."""
    generator = torch.Generator().manual_seed(14)
    return tuple(torch.randn(shape, generator=generator) for _ in range(1 + ranks))


def work_of_chain(entering: Tensor, weight: Tensor) -> Tensor:
    """What one rank computes: one weight for each number that crosses the cuts."""
    return torch.tanh(entering * weight) + weight


def chain_in_one_piece(shape: tuple[int, ...], ranks: int) -> list[Tensor]:
    """The gradient of each rank's weight, without any message."""
    x, *weights = chain_inputs(shape, ranks)
    for weight in reversed(weights):
        x = work_of_chain(x, weight.requires_grad_())
    x.square().sum().backward()
    return [weight.grad for weight in weights]


def try_send_forward(send_forward: type, shapes: list[tuple]) -> ChainNotes:
    """Runs in each rank: the learner's class, and ours on the other side. All shapes
    go forward, from the last rank to the first, before a gradient comes back."""
    with MessageMeter() as meter:
        chains = [_begin_chain(send_forward, shape) for shape in shapes]
        for *_, end in reversed(chains):
            end.backward()
    unchanged = all(torch.equal(leaving, before) for _, leaving, before, _ in chains)
    return ChainNotes([weight.grad for weight, *_ in chains], meter, unchanged)


def _begin_chain(send_forward: type, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """This rank's weight, its activations, a copy of them, and what to go back from."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, *weights = chain_inputs(shape, ranks)
    weight = weights[rank].requires_grad_()
    x = x.to(device()) if rank == ranks - 1 else receive_across_cut(shape, rank + 1)
    leaving = work_of_chain(x, weight.to(device()))
    before = leaving.detach().clone()
    if rank == 0:
        end = leaving.square().sum()
    else:
        end = send_forward.apply(leaving, rank - 1)
        known = isinstance(end, Tensor) and end.requires_grad
        size = tuple(end.shape) if isinstance(end, Tensor) else None
        if size != () or not known:
            kind = type(end).__name__
            raise RuntimeError(_what_is_wrong_with_token(kind, size, known))
    return weight, leaving, before, end


def _what_is_wrong_with_token(kind: str, size: tuple | None, known: bool) -> str:
    if size is None:
        return f"apply returned {kind}, not a tensor with one number"
    if not known:
        return "apply returned a tensor that autograd does not connect with `leaving`"
    return f"apply returned a tensor of shape {size}, not one number of shape ()"


# Tied weights -------------------------------------------------------------------------


TIED_SHAPES = [(1,), (16, 64), (300, 400)]


class TiedNotes(NamedTuple):
    """What one holder saw; a rank without a copy notes nothing."""

    gradient: Tensor
    meter: MessageMeter
    returned: str | None
    unchanged: bool


def tied_gradients(shape: tuple[int, ...]) -> list[Tensor]:
    """The gradients of the two holders before the call, the same in every process."""
    if shape == (1,):  # by hand
        return [torch.tensor([1.0]), torch.tensor([3.0])]
    generator = torch.Generator().manual_seed(41)
    return [torch.randn(shape, generator=generator) for _ in range(2)]


def try_tied(sum_tied, holders: tuple) -> list[TiedNotes | None]:
    """Runs in each rank: the holders call the learner's function, the others wait."""
    found, rank = [], dist.get_rank()
    for shape in TIED_SHAPES:
        dist.barrier()
        found.append(_try_tied(sum_tied, shape, holders) if rank in holders else None)
        dist.barrier()
    return found


def _try_tied(sum_tied, shape: tuple[int, ...], holders: tuple) -> TiedNotes:
    place = holders.index(dist.get_rank())
    weight = torch.nn.Parameter(torch.full(shape, 10.0, device=device()))
    weight.grad = tied_gradients(shape)[place].to(device())
    with MessageMeter() as meter:
        returned = sum_tied(weight, holders[1 - place])
    name = None if returned is None else type(returned).__name__
    unchanged = bool((weight == 10).all())
    return TiedNotes(weight.grad.cpu(), meter, name, unchanged)
