"""Count the bytes that a transformer layer keeps for its backward pass.

Run:      python demos/tensor_parallel/activation_bytes.py
Look for: with s positions, b sequences, width h, a heads and t ranks, the layer keeps
          what Korthikanti et al. say: s b h (34 + 5 a s / h) bytes in 16 bits. What is
          left over are the norms' statistics: on the CPU, 8 bytes for each position.
          Tensor parallel leaves 10 s b h whole; sequence parallel splits them too, if
          what was gathered is not kept but gathered again.
Try:      --dropout torch: on the CPU its mask has 2 bytes for each number, not 1.
          --attention fused: scores are not kept at all.
"""

import argparse
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from demos.model_parallel.parts.transformer_block import make_transformer_block
from demos.pipeline.parts.kept_bytes import KeptBytes
from demos.tensor_parallel.dropout_streams import choose_stream
from demos.tensor_parallel.parts import split_block as blocks
from demos.tensor_parallel.parts.sequence_conjugates import own_positions
from sidebyside import at_least, device, run_ranks
from sidebyside.programs import run_program


class DropKeepingBytes(torch.autograd.Function):
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


def choose_dropout(kind: str, place: int, streams: str, rate: float = 0.1):
    """A function: the course's own with its stream (lesson 16a), torch's, or none."""
    if kind == "torch":
        return lambda x: F.dropout(x, rate)
    if kind == "none":
        return blocks.no_dropout
    stream = choose_stream(place, streams)
    return lambda x: DropKeepingBytes.apply(x, rate, stream)


def fused_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """torch's one function for all of it, without dropout."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class LayerSize(NamedTuple):
    """Positions s, sequences b, width h, heads a."""

    s: int = 64
    b: int = 2
    h: int = 64
    a: int = 4


def kept_by_layer(
    way: str, size: LayerSize, dropout: str = "bytes", attention: str = "plain"
) -> int:
    """Runs in each rank: bytes kept after the forward pass, in bfloat16.

    `way` is "tensor", "sequence" or "gather twice". With one rank all are the whole.
    """
    streams = "equal" if way == "tensor" else "own"  # after the sum
    inside = choose_dropout(dropout, 0, "own")
    attend = partial(blocks.causal_attention, drop=inside)
    if attention == "fused":
        attend = fused_attention
    after = choose_dropout(dropout, 1, streams)
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
    """Korthikanti et al. 2022, equations 1, 2 and 4: bytes of a layer in each rank.

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--ranks", type=at_least(1, 8), default=4, help="t")
    add("--positions", type=at_least(1, 1024), default=64, help="s")
    add("--sequences", type=at_least(1, 64), default=2, help="b")
    add("--width", type=at_least(1, 1024), default=64, help="h")
    add("--heads", type=at_least(1, 64), default=4, help="a")
    add("--dropout", choices=("bytes", "torch", "none"), default="bytes")
    add("--attention", choices=("plain", "fused"), default="plain")
    args = parser.parse_args()
    if args.positions % args.ranks:
        parser.error(f"argument --positions: must be a multiple of {args.ranks} ranks")
    if args.heads % args.ranks:
        parser.error(f"argument --heads: must be a multiple of {args.ranks} ranks")
    if args.width % args.heads:
        parser.error(f"argument --width: must be a multiple of {args.heads} heads")
    size = LayerSize(args.positions, args.sequences, args.width, args.heads)
    print("bytes of a layer     each rank keeps  the formula    left over")
    for ranks in sorted({1, args.ranks}):
        for way in blocks.ENDS if ranks > 1 else ("tensor",):
            given = way, size, args.dropout, args.attention
            kept = run_ranks(kept_by_layer, *given, world_size=ranks)[0]
            said = published_bytes(way, size, ranks)
            name = "whole" if ranks == 1 else way
            print(
                f"{name:<14}{ranks:2} ranks {kept:13,} {said:12,.0f}"
                f" {kept - said:12,.0f}"
            )


if __name__ == "__main__":
    run_program(main)
