"""Two other ways to attend to positions of other ranks: gather, and exchange heads.

Shapes: (batch, heads, positions of a rank, d). Keys and values may have fewer heads
than queries; then several heads of queries share one.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.context_parallel.chunks import Deal, all_chunks
from parallel_by_hand.context_parallel.ring_attention import (
    RingAttention,
    ring_kept_by_autograd,
)
from parallel_by_hand.context_parallel.seen_keys import ChunkAttention
from parallel_by_hand.tensor_parallel.sequence_conjugates import gather_sequence


def for_all_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values once for each head of queries: a copy where some share one."""
    share = query.shape[1] // key.shape[1]
    return key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)


def attend_to_gathered(query: Tensor, key: Tensor, value: Tensor, deal: Deal) -> Tensor:
    """Own queries, all keys and values: an all-gather forward, a reduce-scatter back.

    Source: Llama 3, 2024, section 3.3.2. Kept for backward: everyone's keys and values.
    """
    ranks = dist.get_world_size()
    key, value = (
        gather_sequence(part.transpose(1, 2).contiguous()).transpose(1, 2)
        for part in (key, value)
    )
    key, value = for_all_heads(query, key, value)
    mine, theirs = deal(dist.get_rank(), ranks), all_chunks(deal, ranks)
    return ChunkAttention.apply(query, key, value, mine, theirs)


def exchanged(x: Tensor, cut: int, join: int) -> Tensor:
    """All-to-all: dimension `cut` is dealt out to the ranks, `join` becomes whole."""
    pieces = [part.contiguous() for part in x.chunk(dist.get_world_size(), cut)]
    received = [torch.empty_like(part) for part in pieces]
    dist.all_to_all(received, pieces)
    return torch.cat(received, join)


class Exchange(torch.autograd.Function):
    """`exchanged`; backward is the way back, with the two dimensions swapped."""

    @staticmethod
    def forward(ctx, x: Tensor, cut: int, join: int) -> Tensor:
        ctx.back = join, cut
        return exchanged(x, cut, join)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return exchanged(gradient, *ctx.back), None, None


def attend_by_heads(query: Tensor, key: Tensor, value: Tensor, deal: Deal) -> Tensor:
    """From all heads of own positions to own heads of all positions, and back.

    Where keys have fewer heads than there are ranks, they are sent several times.
    `ValueError` if the heads cannot be dealt out evenly. Source: Jacobs et al.,
    DeepSpeed Ulysses, 2023.
    """
    ranks, heads, of_keys = dist.get_world_size(), query.shape[1], key.shape[1]
    if heads % ranks or (of_keys % ranks and ranks % of_keys):
        raise ValueError(f"{heads} and {of_keys} heads on {ranks} ranks")
    if of_keys < ranks:
        copies = ranks // of_keys
        key, value = (part.repeat_interleave(copies, 1) for part in (key, value))
    query, key, value = (Exchange.apply(part, 1, 2) for part in (query, key, value))
    key, value = for_all_heads(query, key, value)
    chunks = all_chunks(deal, ranks)
    mixed = ChunkAttention.apply(query, key, value, chunks, chunks)
    return Exchange.apply(mixed, 2, 1)


WAYS = {
    "ring, by autograd": ring_kept_by_autograd,
    "ring": RingAttention.apply,
    "gather": attend_to_gathered,
    "heads": attend_by_heads,
}
