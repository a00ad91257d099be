"""The bytes that a transformer layer keeps for its backward pass."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.tensor_parallel import split_block as blocks
from parallel_by_hand.tensor_parallel.dropout_streams import choose_stream
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from sidebyside import device


class _DropKeepingBytes(torch.autograd.Function):
    """Dropout that keeps one byte for each number: was it dropped?"""

    @staticmethod
    def forward(ctx, x: Tensor, rate: float, stream: torch.Generator) -> Tensor:
        kept = torch.rand(x.shape, generator=stream, device=x.device) >= rate
        ctx.save_for_backward(kept)
        ctx.rate = rate
        return x * kept / (1 - rate)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (kept,) = ctx.saved_tensors
        return gradient * kept / (1 - ctx.rate), None, None


def _choose_dropout(kind: str, place: int, streams: str, rate: float = 0.1):
    """A function: the course's own with its stream (lesson 16a), torch's, or none."""
    if kind == "torch":
        return lambda x: F.dropout(x, rate)
    if kind == "none":
        return blocks.no_dropout
    stream = choose_stream(place, streams)
    return lambda x: _DropKeepingBytes.apply(x, rate, stream)


def fused_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Few activation bytes: torch's one function for all of it, without dropout."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class LayerSize(NamedTuple):
    """Positions s, sequences b, width h, heads a: activations follow from them."""

    s: int = 64
    b: int = 2
    h: int = 64
    a: int = 4


def kept_by_layer(
    way: str, size: LayerSize, dropout: str = "bytes", attention: str = "plain"
) -> int:
    """Runs in each rank: activation bytes kept by forward, in bfloat16."""
    streams = "equal" if way == "tensor" else "own"  # after the sum
    inside = _choose_dropout(dropout, 0, "own")
    attend = partial(blocks.causal_attention, drop=inside)
    if attention == "fused":
        attend = fused_attention
    after = _choose_dropout(dropout, 1, streams)
    whole = make_transformer_block(size.h, size.a)
    layer = blocks.split_block(whole, blocks.ENDS[way], attend, after)
    layer.to(device(), torch.bfloat16)
    x = torch.randn(size.b, size.s, size.h).to(device(), torch.bfloat16)
    if way != "tensor":
        x = own_positions(x).contiguous()
    with KeptBytes(layer) as kept:
        layer(x.requires_grad_())
    return kept.peak


def published_bytes(way: str, size: LayerSize, t: int, number: int = 2) -> float:
    """Activations by Korthikanti et al. 2022, equations 1, 2 and 4: bytes on a rank.

    The paper counts numbers of 16 bits; `number` is the bytes of one. A mask of dropout
    has one byte in any case: 2 of the 10, 1 of the 5. "sequence" keeps the two gathered
    inputs, 4 s b h, which the paper does not.
    """
    s, b, h, a = size
    whole, split, scores = 4 * number + 2, 12 * number, 2 * number + 1  # 10, 24, 5
    if way == "tensor":
        return s * b * h * (whole + split / t + scores * a * s / (h * t))
    sharded = s * b * h / t * (whole + split + scores * a * s / h)
    if way == "gather twice" or t == 1:
        return sharded
    return sharded + 2 * number * s * b * h * (1 - 1 / t)
