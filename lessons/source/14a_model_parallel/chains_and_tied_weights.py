"""What the checks of lesson 14a run in each rank, and what they note there."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.model_parallel.cut_messages import ReceiveForward
from sidebyside import MessageMeter, device


class ChainCase(NamedTuple):
    """Activations that cross the cuts of a chain: one weight on each rank."""

    shape: tuple[int, ...]
    batches: int = 1  # so many are under way before the first goes back
    oldest_first: bool = False  # the order of the ways back; else the newest first

    def shape_of(self, batch: int) -> tuple[int, ...]:
        """Of what crosses: each batch is one shorter than the one before."""
        return (self.shape[0] - batch, *self.shape[1:])


class ChainNotes(NamedTuple):
    """What one rank saw: the gradient of its weight, and what was sent."""

    gradient: Tensor
    meter: MessageMeter
    unchanged: bool


def chain_inputs(case: ChainCase, ranks: int) -> tuple[list[Tensor], list[Tensor]]:
    """The inputs of all batches and the weights of all ranks, the same everywhere."""
    generator = torch.Generator().manual_seed(14)
    shapes = [case.shape_of(batch) for batch in range(case.batches)]
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    return inputs, [torch.randn(case.shape, generator=generator) for _ in range(ranks)]


def work_of_chain(entering: Tensor, weight: Tensor) -> Tensor:
    """What one rank computes."""
    weight = weight[: len(entering)]
    return torch.tanh(entering * weight) + weight


def chain_in_one_piece(case: ChainCase, ranks: int) -> list[Tensor]:
    """The gradient of each rank's weight, without any message."""
    inputs, weights = chain_inputs(case, ranks)
    for weight in weights:
        weight.requires_grad_()
    for x in inputs:
        for weight in weights:
            x = work_of_chain(x, weight)
        x.square().sum().backward()
    return [weight.grad for weight in weights]


def try_send_forward(send_forward: type, cases: list[ChainCase]) -> list[ChainNotes]:
    """Runs in each rank: each case with the learner's class, ours on the other side."""
    return [_try_chain(send_forward, case) for case in cases]


def _try_chain(send_forward: type, case: ChainCase) -> ChainNotes:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs, weights = chain_inputs(case, ranks)
    weight = weights[rank].to(device()).requires_grad_()
    ends, left = [], []
    dist.barrier()  # nobody is still busy with the case before
    with MessageMeter() as meter:
        for batch, x in enumerate(inputs):
            x = x.to(device())
            if rank > 0:
                anchor = torch.zeros((), device=device(), requires_grad=True)
                x = ReceiveForward.apply(anchor, case.shape_of(batch), rank - 1)
            leaving = work_of_chain(x, weight)
            if rank == ranks - 1:
                ends.append(leaving.square().sum())
                continue
            left.append((leaving.detach(), leaving.detach().clone()))
            token = send_forward.apply(leaving, rank + 1)
            known = isinstance(token, Tensor) and token.requires_grad
            size = tuple(token.shape) if isinstance(token, Tensor) else None
            if size != () or not known:
                kind = type(token).__name__
                raise BadTokenOfChain(_what_is_wrong_with_token(kind, size, known))
            ends.append(token)
        for end in ends if case.oldest_first else reversed(ends):
            end.backward()
    unchanged = all(torch.equal(now, before) for now, before in left)
    gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
    return ChainNotes(gradient.cpu(), meter, unchanged)


FAN = {1: (2.0, 1.0), 2: (5.0, 10.0)}  # target: factor forward, gradient back


def try_fan_of_sends(send_forward: type) -> float:
    """Runs in each of three ranks: rank 0 sends to both others, rank 2 answers last.

    Gives what one weight's gradient is on rank 0, whose ways back begin with rank 2's.
    The barriers see to it that both gradients wait by then, that of rank 1 longer.
    """
    rank = dist.get_rank()
    weight = torch.ones(3, device=device(), requires_grad=True)
    if rank == 0:
        tokens = [send_forward.apply(f * weight, to) for to, (f, _) in FAN.items()]
    else:
        dist.recv(torch.empty(3, device=device()), 0)
    for turn in FAN:
        if rank == turn:
            gradient = torch.full((3,), FAN[rank][1], device=device())
            request = dist.isend(gradient, 0)
        dist.barrier()
    if rank == 0:
        for token in reversed(tokens):
            token.backward()
        return weight.grad[0].item()
    request.wait()
    return 0.0


class BadTokenOfChain(RuntimeError):
    """What `apply` returned is nothing to call `backward` on."""


def _what_is_wrong_with_token(kind: str, size: tuple | None, known: bool) -> str:
    if size is None:
        return f"apply returned {kind}, not a tensor with one number"
    if not known:
        return "apply returned a tensor that autograd does not connect with `leaving`"
    return f"apply returned a tensor of shape {size}, not one number of shape ()"


# Tied weights -------------------------------------------------------------------------


TIED_SHAPES = [(16, 64), (1,), (300, 400)]


class TiedNotes(NamedTuple):
    """What one holder saw; a rank without a copy notes nothing."""

    gradient: Tensor
    meter: MessageMeter
    returned: str | None
    unchanged: bool


def tied_gradients(shape: tuple[int, ...]) -> list[Tensor]:
    """The gradients of the two holders before the call, the same in every process."""
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
    weight = torch.nn.Parameter(torch.ones(shape, device=device()))
    weight.grad = tied_gradients(shape)[place].to(device())
    with MessageMeter() as meter:
        returned = sum_tied(weight, holders[1 - place])
    name = None if returned is None else type(returned).__name__
    unchanged = bool((weight == 1).all())
    return TiedNotes(weight.grad.cpu(), meter, name, unchanged)
