"""Attention over positions that lie on several ranks: keys and values go round a ring.

Every rank keeps its queries. After each step it passes the keys and values that it has
just seen to its right neighbour. Shapes: (batch, heads, positions of a rank, d).
Source: Liu, Zaharia and Abbeel, Ring Attention with Blockwise Transformers for
Near-Infinite Context, 2023.
"""

from collections.abc import Callable
from time import sleep

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.collectives.eight_collectives import exchange
from parallel_by_hand.context_parallel.chunks import Deal, pairs_to_compute
from parallel_by_hand.context_parallel.seen_keys import (
    Gradients,
    Seen,
    attend_to_chunks,
    gradients_of_chunks,
    merge_seen,
)
from sidebyside import device, span


def pass_on(tensors: list[Tensor], to: int = 1) -> list[Tensor]:
    """What the left neighbour has sent, while these go to the right.

    All have one shape. With `to=-1` they go to the left.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    packed = torch.stack(tensors)
    arrived = torch.empty_like(packed)
    if ranks == 1:
        return list(packed)  # the neighbour is this rank
    exchange({(rank + to) % ranks: packed}, {(rank - to) % ranks: arrived})
    return list(arrived)


class PassOn(torch.autograd.Function):
    """`pass_on` that autograd follows: tensors go right, their gradients go left."""

    @staticmethod
    def forward(ctx, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(pass_on(list(tensors)))

    @staticmethod
    def backward(ctx, *gradients: Tensor):
        return tuple(pass_on(list(gradients), to=-1))


def attend_round(
    query: Tensor, key: Tensor, value: Tensor, deal: Deal, send: Callable = pass_on
) -> Seen:
    """What this rank's queries see of the keys of all ranks; N - 1 passes."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = deal(rank, ranks)
    seen = attend_to_chunks(query, key, value, mine, mine)
    for step in range(1, ranks):
        key, value = send([key, value])
        theirs = deal((rank - step) % ranks, ranks)
        arrived = attend_to_chunks(query, key, value, mine, theirs)
        seen = merge_seen(seen, arrived)
    return seen


def gradients_round(
    query: Tensor, key: Tensor, value: Tensor, seen: Seen, gradient: Tensor, deal: Deal
) -> Gradients:
    """The gradients of this rank's queries, keys and values.

    Keys and values go round once more, and carry their gradients with them. After
    N - 1 passes every rank has added its part; one more takes the gradients home.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine, of_query = deal(rank, ranks), torch.zeros_like(query)
    of_key, of_value = torch.zeros_like(key), torch.zeros_like(value)
    for step in range(ranks):
        if step:
            key, value, of_key, of_value = pass_on([key, value, of_key, of_value])
        theirs = deal((rank - step) % ranks, ranks)
        given = query, key, value, seen, gradient
        parts = gradients_of_chunks(*given, mine, theirs)
        of_query, of_key, of_value = (
            total + part
            for total, part in zip((of_query, of_key, of_value), parts, strict=True)
        )
    return of_query, *pass_on([of_key, of_value])


class RingAttention(torch.autograd.Function):
    """The ring both ways: it keeps this rank's own positions only.

    In units of its keys, each of N > 1 ranks sends 2 (N - 1), and back 2 (N - 1) + 2 N.
    """

    @staticmethod
    def forward(ctx, query, key, value, deal: Deal) -> Tensor:
        seen = attend_round(query, key, value, deal)
        ctx.save_for_backward(query, key, value, *seen)
        ctx.deal = deal
        return seen[0]

    @staticmethod
    def backward(ctx, gradient: Tensor):
        query, key, value, mixed, log_sum = ctx.saved_tensors
        given = query, key, value, (mixed, log_sum), gradient
        return *gradients_round(*given, ctx.deal), None


def ring_kept_by_autograd(query: Tensor, key: Tensor, value: Tensor, deal: Deal):
    """The ring whose backward autograd writes: it keeps all that has come by.

    Every rank must use every piece, as with `zig_zag`: a rank whose queries see nothing
    of a piece would send no gradient for it, and others would wait for that.
    """
    send = lambda tensors: PassOn.apply(*tensors)  # noqa: E731
    return attend_round(query, key, value, deal, send)[0]


def sleep_round_ring(deal: Deal, seconds: float) -> None:
    """Runs in each rank: the ring's timetable. Two whole chunks with two whole chunks
    take 4 times `seconds`; what lies ahead is skipped."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    piece = torch.zeros(1, device=device())
    pairs = pairs_to_compute(deal, ranks, 2000 * ranks)[rank]
    dist.barrier()
    for step in range(ranks):
        if step:
            with span("wait"):
                (piece,) = pass_on([piece])
        if pairs[step]:
            with span(f"keys of {(rank - step) % ranks}"):
                sleep(seconds * pairs[step] / 1e6)
