"""The transformer block of lessons 14 to 17, split over ranks by heads and neurons.

What stands between two pairs (norm, dropout, the sum with x) is either whole on every
rank or split by positions. The block is the same for both: only its
`EndsOfSplitBlock` differ, the functions that lead into a pair and out of it.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.model_parallel.transformer_block import AttentionHalf, MLPHalf
from parallel_by_hand.tensor_parallel.conjugates import copy_to_ranks, sum_over_ranks
from parallel_by_hand.tensor_parallel.sequence_conjugates import (
    GatherAgainLinear,
    gather_sequence,
    scatter_sum,
)
from parallel_by_hand.tensor_parallel.split_layers import own_part

Drop = Callable[[Tensor], Tensor]


class EndsOfSplitBlock(NamedTuple):
    """How a pair begins and ends.

    `enter(x, weight, bias)` is the linear layer of this rank's neurons, for all
    positions; `leave(summand)` is the sum over the ranks: all, or those of `group`.
    """

    enter: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    leave: Callable[[Tensor], Tensor]
    group: Any = None


def ends_in_group(spread: Callable, total: Callable, group=None) -> EndsOfSplitBlock:
    """A split block's ends for one group: functions, so that a model can be copied."""

    def enter(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(spread(x, group), weight, bias)

    return EndsOfSplitBlock(enter, lambda summand: total(summand, group), group)


CONJUGATES = {
    "tensor": (copy_to_ranks, sum_over_ranks),
    "sequence": (gather_sequence, scatter_sum),
}
ENDS = {way: ends_in_group(*pair) for way, pair in CONJUGATES.items()}
ENDS["gather twice"] = EndsOfSplitBlock(GatherAgainLinear.apply, scatter_sum)


def no_dropout(x: Tensor) -> Tensor:
    """A split block's dropout that drops nothing."""
    return x


def causal_attention(
    query: Tensor, key: Tensor, value: Tensor, drop: Drop = no_dropout
) -> Tensor:
    """In the split block: softmax(query key^T / sqrt(d)) value; nobody looks ahead.

    Shapes: (batch, heads, positions, d). Heads know nothing of each other.
    """
    length, d = query.shape[-2:]
    ahead = torch.full((length, length), -torch.inf, dtype=query.dtype)
    ahead = ahead.triu(1).to(query.device)  # -inf for positions ahead, else 0
    scores = query @ key.transpose(-1, -2) * d**-0.5 + ahead
    return drop(scores.softmax(-1)) @ value


class _OwnColumns(nn.Module):
    """Some neurons of a linear layer, for all positions."""

    def __init__(self, weight: Tensor, bias: Tensor, enter: Callable):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.enter = enter

    def forward(self, x: Tensor) -> Tensor:
        return self.enter(x, self.weight, self.bias)


class _OwnRows(nn.Module):
    """Some inputs of a linear layer; its output is summed over the ranks."""

    def __init__(self, weight: Tensor, bias: Tensor, leave: Callable):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.leave = leave

    def forward(self, part: Tensor) -> Tensor:
        return self.leave(F.linear(part, self.weight)) + self.bias


class SplitAttention(nn.Module):
    """The attention half with this rank's heads; `after` is the dropout after the sum.

    The number of heads may differ by 1 between ranks.
    """

    def __init__(
        self, half: AttentionHalf, ends: EndsOfSplitBlock, attend: Callable, after: Drop
    ):
        super().__init__()
        width, heads = half.out.in_features, half.heads
        self.size, self.attend, self.after = width // heads, attend, after
        into = half.into.weight.view(3, heads, self.size, width)
        bias = half.into.bias.view(3, heads, self.size)
        out = half.out.weight.view(width, heads, self.size)
        into, bias, out = (own_part(t, 1, ends.group) for t in (into, bias, out))
        self.norm = copy.deepcopy(half.norm)
        self.into = _OwnColumns(into.flatten(0, 2), bias.flatten(), ends.enter)
        whole = half.out.bias.detach().clone()
        self.out = _OwnRows(out.flatten(1), whole, ends.leave)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.into(self.norm(x)).unflatten(2, (3, -1, self.size))
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # this rank's heads
        mixed = self.attend(query, key, value).transpose(1, 2).flatten(2)
        return x + self.after(self.out(mixed))


class SplitMLP(nn.Module):
    """The MLP half with this rank's neurons: lesson 16a's pair."""

    def __init__(self, half: MLPHalf, ends: EndsOfSplitBlock, after: Drop):
        super().__init__()
        wide, group, self.after = half.wide, ends.group, after
        self.norm = copy.deepcopy(half.norm)
        self.wide = _OwnColumns(
            own_part(wide.weight, 0, group),
            own_part(wide.bias, 0, group),
            ends.enter,
        )
        bias = half.narrow.bias.detach().clone()
        self.narrow = _OwnRows(own_part(half.narrow.weight, 1, group), bias, ends.leave)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.after(self.narrow(F.gelu(self.wide(self.norm(x)))))


def split_block(
    block: Any,
    ends: EndsOfSplitBlock,
    attend: Callable = causal_attention,
    after: Drop = no_dropout,
) -> nn.Sequential:
    """A copy of `make_transformer_block()` with this rank's heads and neurons."""
    attention = SplitAttention(block[0], ends, attend, after)
    return nn.Sequential(attention, SplitMLP(block[1], ends, after))


HELD_WHOLE = "norm.weight", "norm.bias", "out.bias", "narrow.bias", "places"


def sum_whole_parameters(model: nn.Module) -> None:
    """Complete the split block's gradients after a backward with split positions.

    What every rank holds whole has seen this rank's positions only: its gradient is a
    summand. A rank's own heads and neurons have seen all positions.
    """
    for name, parameter in model.named_parameters():
        if name.endswith(HELD_WHOLE) and parameter.grad is not None:
            dist.all_reduce(parameter.grad)
