"""The block of today's language models: what became of the block of lessons 14 to 17.

RMSNorm instead of LayerNorm (Zhang and Sennrich, 2019), query heads that share key and
value heads (grouped-query attention, Ainslie et al., 2023), a gated MLP (SwiGLU,
Shazeer, 2020), no biases, no dropout. Rotary positions are left out.

A half is whole, or has this rank's heads and neurons. The code is the same for both:
only `enter` and `leave` differ, the functions at the two ends of lesson 16a's pair.
"""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.tensor_parallel.conjugates import copy_to_ranks, sum_over_ranks
from parallel_by_hand.tensor_parallel.split_layers import own_part
from sidebyside import device


def as_it_is(x: Tensor) -> Tensor:
    return x


class GatedMLP(nn.Module):
    """down(silu(gate x) * up x): two matrices of columns, one of rows."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class GatedHalf(nn.Module):
    """x + mlp(norm(x))."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm, self.mlp = nn.RMSNorm(width), GatedMLP(width, hidden)
        self.enter: Callable[[Tensor], Tensor] = as_it_is
        self.leave: Callable[[Tensor], Tensor] = as_it_is

    def forward(self, x: Tensor) -> Tensor:
        return x + self.leave(self.mlp(self.enter(self.norm(x))))


class GroupedAttention(nn.Module):
    """x + attention(norm(x)); `heads // kv_heads` query heads share a key and a value.

    Shapes: x is (batch, positions, width). `share` leads to the weights of keys and
    values: where several ranks hold the same ones, it sums their gradients.
    """

    def __init__(self, width: int, heads: int, kv_heads: int):
        super().__init__()
        self.size = width // heads
        self.norm = nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.size, bias=False)
        self.value = nn.Linear(width, kv_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.enter: Callable[[Tensor], Tensor] = as_it_is
        self.leave: Callable[[Tensor], Tensor] = as_it_is
        self.share: Callable[[Tensor], Tensor] = as_it_is

    def forward(self, x: Tensor) -> Tensor:
        normed = self.enter(self.norm(x))
        key, value = self.share(self.key.weight), self.share(self.value.weight)
        query, key, value = (
            F.linear(normed, weight).unflatten(2, (-1, self.size)).transpose(1, 2)
            for weight in (self.query.weight, key, value)
        )
        mixed = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        return x + self.leave(self.out(mixed.transpose(1, 2).flatten(2)))


class BlockSize(NamedTuple):
    """Width h, heads, key and value heads, neurons of the MLP."""

    width: int = 64
    heads: int = 8
    kv_heads: int = 2
    hidden: int = 224  # 3.5 times the width


SMALL_BLOCK = BlockSize()


def make_todays_block(size: BlockSize = SMALL_BLOCK) -> nn.Sequential:
    """Both halves, the same in every process."""
    torch.manual_seed(0)
    attention = GroupedAttention(size.width, size.heads, size.kv_heads)
    return nn.Sequential(attention, GatedHalf(size.width, size.hidden))


def split_todays_block(block: Any) -> nn.Sequential:
    """A copy with this rank's heads and neurons, for all ranks.

    Each rank has the key and value heads of its query heads. If there are more ranks
    than those, several ranks hold the same one: `ValueError` unless they are equally
    many.
    """
    block = copy.deepcopy(block)
    for half in block:
        half.enter, half.leave = copy_to_ranks, sum_over_ranks
    attention = block[0]
    attention.share = _split_keys_and_values(attention)
    attention.query.weight = nn.Parameter(own_part(attention.query.weight, 0))
    attention.out.weight = nn.Parameter(own_part(attention.out.weight, 1))
    split_neurons(block[1].mlp)
    return block


def split_neurons(mlp: GatedMLP) -> None:
    """Leave this rank's neurons, in place: two matrices by columns, one by rows."""
    for layer, dim in ((mlp.gate, 0), (mlp.up, 0), (mlp.down, 1)):
        layer.weight = nn.Parameter(own_part(layer.weight, dim))


def _split_keys_and_values(attention: GroupedAttention) -> Callable:
    """Cut both by heads, in place; what leads to their weights from now on."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    heads = attention.key.out_features // attention.size
    if heads % ranks and ranks % heads:
        raise ValueError(
            f"{heads} key and value heads are not shared evenly by {ranks} ranks"
        )
    sharers = max(1, ranks // heads)  # ranks that hold the same head
    for layer in (attention.key, attention.value):
        parts = layer.weight.detach().tensor_split(ranks // sharers)
        layer.weight = nn.Parameter(parts[rank // sharers].clone())
    if sharers == 1:
        return as_it_is
    groups = torch.arange(ranks).view(-1, sharers).tolist()
    group, _ = dist.new_subgroups_by_enumeration(groups)
    return lambda weight: copy_to_ranks(weight, group)


def compare_split_todays_block(size: BlockSize = SMALL_BLOCK) -> dict[str, float]:
    """Runs in each rank: a step beside the unsplit block, in 64 bits.

    The largest differences of the outputs, of the gradient of x, and of the gradients
    of the parameters from this rank's parts of the unsplit ones.
    """
    whole = make_todays_block(size).double().to(device())
    mine = split_todays_block(whole)
    x = torch.randn(2, 12, size.width, dtype=torch.float64, device=device())
    x_split, x = x.clone().requires_grad_(), x.requires_grad_()
    expected, got = whole(x), mine(x_split)
    expected.square().sum().backward()
    got.square().sum().backward()
    for parameter in whole.parameters():  # gradients in place of parameters
        parameter.data = parameter.grad
    parts = split_todays_block(whole)
    pairs = list(zip(mine.parameters(), parts.parameters(), strict=True))
    return {
        "output": largest_gap(got, expected),
        "gradient of x": largest_gap(x_split.grad, x.grad),
        "gradients of parameters": max(largest_gap(m.grad, p) for m, p in pairs),
    }


def largest_gap(one: Tensor, other: Tensor) -> float:
    """The largest difference of two tensors' numbers."""
    return (one - other).abs().max().item()


def kept_by_todays_block(size: BlockSize, positions: int = 64, batch: int = 2) -> int:
    """Bytes that autograd keeps after a forward pass in bfloat16."""
    block = make_todays_block(size).to(torch.bfloat16)
    x = torch.randn(batch, positions, size.width).to(torch.bfloat16).requires_grad_()
    with KeptBytes(block) as kept:
        y = block(x)
        del y
    return kept.peak


def todays_block_formula(size: BlockSize) -> float:
    """The bytes kept in 16 bits, divided by s b h: 12 + 4 g + 8 f.

    g is the share of key and value heads, f the MLP's neurons divided by the width.
    Both x and both normed x, query, mixture: 2 each. Keys and values: 2 g each. The
    MLP: gate, silu of it, up and their product, 2 f each.
    """
    return 12 + 4 * size.kv_heads / size.heads + 8 * size.hidden / size.width
