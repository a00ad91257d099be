"""The library's calls, carried out by this course's own messages.

`dist.all_reduce` sends inside the library, where no meter sees the bytes and no paced
link slows them down. The ring of lesson 10b does the same by messages that both see.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
import torch.distributed as dist

from parallel_by_hand.collectives import eight_collectives
from parallel_by_hand.collectives.all_reduces import ring_all_reduce


def all_reduce(
    tensor: torch.Tensor, op=dist.ReduceOp.SUM, group=None, async_op: bool = False
) -> torch.futures.Future | None:
    """Our own messages: the sum by the ring, or the maximum; done before it returns."""
    if op == dist.ReduceOp.MAX:
        _all_reduce_maximum(tensor, group)
    else:
        ring_all_reduce(tensor, group)
    return eight_collectives.finished() if async_op else None


def _all_reduce_maximum(tensor: torch.Tensor, group=None) -> None:
    """The largest number of all ranks at each place; as many bytes as the ring sends.

    Each rank gets everyone's numbers at its own places, and hands round the maximum.
    """
    ranks = dist.get_world_size(group)
    pieces = list(tensor.view(-1).tensor_split(ranks))  # views
    mine = pieces[dist.get_rank(group)]
    received = [torch.empty_like(mine) for _ in pieces]
    eight_collectives.all_to_all(received, pieces, group)
    eight_collectives.all_gather(pieces, torch.stack(received).amax(0), group)


def all_to_all_single(
    received: torch.Tensor, rows: torch.Tensor, from_each=None, to_each=None, group=None
) -> None:
    """Rows for each rank, as many as the two lists say; without them equally many."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    out, rooms = (
        t.split(sizes) if sizes else t.chunk(ranks)
        for t, sizes in ((rows, to_each), (received, from_each))
    )
    rooms[rank].copy_(out[rank])
    outgoing = {r: part for r, part in enumerate(out) if r != rank and len(part)}
    incoming = {r: part for r, part in enumerate(rooms) if r != rank and len(part)}
    eight_collectives.exchange(outgoing, incoming, group)


@contextmanager
def messages_of_ours() -> Iterator[None]:
    """Inside a rank: `dist.all_reduce` is lesson 10b's ring, the others are 10a's."""
    ours = {
        "all_reduce": all_reduce,
        "all_gather": eight_collectives.all_gather,
        "all_to_all": eight_collectives.all_to_all,
        "reduce_scatter": eight_collectives.reduce_scatter,
        "all_to_all_single": all_to_all_single,
    }
    with mock.patch.multiple(dist, **ours):
        yield
