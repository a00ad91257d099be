"""A mixture of experts in place of a block's MLP, on one rank or shared by several."""

import copy
from collections.abc import Callable
from math import ceil
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.experts.routing import (
    Router,
    Routing,
    balance_loss,
    choices_of_experts,
    combine,
    dispatch,
)
from parallel_by_hand.experts.todays_block import GatedMLP, as_it_is, split_neurons
from parallel_by_hand.tensor_parallel.conjugates import copy_to_ranks, sum_over_ranks


class SendRows(torch.autograd.Function):
    """Rows to each rank, as lesson 10a's uneven all-to-all; backward, gradients home.

    `to_each` and `from_each` say how many rows. Backward they change places.
    """

    @staticmethod
    def forward(ctx, rows: Tensor, to_each: list, from_each: list, group) -> Tensor:
        ctx.home = from_each, to_each, group
        room = rows.new_empty(sum(from_each), rows.shape[1])
        dist.all_to_all_single(room, rows, from_each, to_each, group=group)
        return room

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return SendRows.apply(gradient.contiguous(), *ctx.home), None, None, None


def ask_experts(experts: nn.ModuleList, rows: Tensor, counts: list[int]) -> Tensor:
    """Each expert answers its rows; those of the first expert come first."""
    pairs = zip(experts, rows.split(counts), strict=True)
    return torch.cat([expert(part) for expert, part in pairs])


def ask_experts_of_ranks(
    experts: nn.ModuleList, rows: Tensor, counts: Tensor, group
) -> Tensor:
    """The answers if each rank of `group` has its share of experts, in rank order.

    Three all-to-alls: the counts, the rows, the answers. What arrives is sorted by
    sender and has to be sorted by expert.
    """
    to_each = counts.view(-1, len(experts))  # [rank, expert of that rank]
    arriving = torch.empty_like(to_each)  # [sender, expert of this rank]
    dist.all_to_all_single(arriving, to_each, group=group)
    out, back = to_each.sum(1).tolist(), arriving.sum(1).tolist()
    visitors = SendRows.apply(rows, out, back, group)
    expert = torch.arange(len(experts), device=rows.device).repeat(len(arriving))
    order = expert.repeat_interleave(arriving.flatten()).argsort(stable=True)
    answers = ask_experts(experts, visitors[order], arriving.sum(0).tolist())
    return SendRows.apply(answers[order.argsort()], back, out, group)


class Limits(NamedTuple):
    """What is counted, and over whom.

    An expert takes at most `factor` times its fair share of the choices; None: all of
    them. `per_rank`: each rank counts its own tokens only, for the capacity and for
    the loss that balances. Otherwise all ranks count together, in rank order.
    """

    factor: float | None = None
    per_rank: bool = False


class ExpertLayer(nn.Module):
    """x + the answers of k of E gated MLPs to norm(x), for each token.

    After a forward, `chosen` has each token's experts, `shares` its scores divided by
    their sum, `choices` how often each expert was chosen, `kept` how many choices of
    this rank each expert took, and `balance` is the balancing loss. `group`, a process
    group, shares the experts; None: this rank has all of them, or its neurons of all of
    them (`enter` and `leave`).
    """

    chosen: Tensor
    shares: Tensor
    choices: Tensor
    kept: Tensor
    balance: Tensor

    def __init__(self, width: int, hidden: int, experts: int, k: int):
        super().__init__()
        self.norm, self.router = nn.RMSNorm(width), Router(width, experts, k)
        mlps = [GatedMLP(width, hidden) for _ in range(experts)]
        self.experts, self.group, self.limits = nn.ModuleList(mlps), None, Limits()
        self.enter: Callable[[Tensor], Tensor] = as_it_is
        self.leave: Callable[[Tensor], Tensor] = as_it_is

    def __getstate__(self) -> dict:
        """For a copy, which has had no forward; tensors of a graph cannot be copied."""
        noted = "shares", "balance"
        return {name: x for name, x in self.__dict__.items() if name not in noted}

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x).flatten(0, -2)
        routing = self.router(tokens)
        places = self._dispatch(routing)
        rows = self.enter(tokens)[places // self.router.k]
        if self.group is None:
            answers = ask_experts(self.experts, rows, self.kept.tolist())
        else:
            answers = ask_experts_of_ranks(self.experts, rows, self.kept, self.group)
        combined = combine(answers, places, self.enter(routing.gates))
        return x + self.leave(combined).view_as(x)

    def _dispatch(self, routing: Routing) -> Tensor:
        """The places of the choices that are kept; notes what the docstring names."""
        experts, capacity = len(self.router.weight), None
        counts = choices_of_experts(routing.chosen, experts)
        before = torch.zeros_like(counts)
        if not self.limits.per_rank and dist.is_initialized():
            every = [torch.empty_like(counts) for _ in range(dist.get_world_size())]
            dist.all_gather(every, counts)
            before = sum(every[: dist.get_rank()], before)
            counts = torch.stack(every).sum(0)
        if self.limits.factor is not None:
            capacity = ceil(self.limits.factor * int(counts.sum()) / experts)
        places, self.kept = dispatch(routing.chosen, experts, capacity, before)
        self.chosen, self.choices = routing.chosen, counts
        self.shares = routing.shares
        self.balance = balance_loss(routing.shares, counts)
        return places


def make_expert_layer(
    width: int = 16, hidden: int = 8, experts: int = 8, k: int = 2
) -> ExpertLayer:
    """The same in every process."""
    torch.manual_seed(0)
    return ExpertLayer(width, hidden, experts, k)


def split_experts(layer: ExpertLayer, group) -> ExpertLayer:
    """A copy that has this rank's experts only; their number must divide by ranks."""
    layer, ranks = copy.deepcopy(layer), dist.get_world_size(group)
    each, left = divmod(len(layer.experts), ranks)
    if left:
        raise ValueError(f"{len(layer.experts)} experts on {ranks} ranks")
    first = dist.get_rank(group) * each
    layer.experts, layer.group = layer.experts[first : first + each], group
    return layer


def split_all_experts(layer: ExpertLayer) -> ExpertLayer:
    """A copy with this rank's neurons of every expert: tensor parallel, lesson 16a."""
    layer = copy.deepcopy(layer)
    layer.enter, layer.leave = copy_to_ranks, sum_over_ranks
    layer.limits = Limits(per_rank=True)  # all ranks have the same tokens
    for expert in layer.experts:
        split_neurons(expert)  # pyright: ignore[reportArgumentType]
    return layer


def is_expert(name: str) -> bool:
    """Whether a parameter of this name belongs to an expert."""
    return "experts." in name


def complete_gradients(layer: nn.Module, replicas) -> None:
    """After a backward of each rank's own mean loss: the gradient of all ranks' mean.

    Shared parameters have seen this rank's tokens, so they are summed over all ranks.
    An expert has seen those of its whole group: it is summed over `replicas`, the
    ranks that have the same experts. Both are divided by the number of all ranks.
    """
    for name, parameter in layer.named_parameters():
        group = replicas if is_expert(name) else None
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad.div_(dist.get_world_size())
