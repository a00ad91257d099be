"""Let the parts of earlier lessons work inside one row or column of a mesh.

What lessons 9 to 17 built speaks to all ranks: it asks `dist.get_rank()`, sends to the
rank on its right, and sums over everybody. On a mesh, everybody is one group of it.
`group_as_world` says so for as long as it lasts, and the parts need not know.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from unittest import mock

import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.collectives import eight_collectives
from parallel_by_hand.collectives.all_reduces import ring_all_reduce
from parallel_by_hand.sharding.shard_links import finished

TORCH_RANK, TORCH_SIZE = dist.get_rank, dist.get_world_size
TORCH_P2P, TORCH_BROADCAST = dist.P2POp, dist.broadcast
TORCH_OBJECTS = dist.broadcast_object_list


@contextmanager
def group_as_world(group) -> Iterator[None]:
    """Inside, a call of `torch.distributed` that names no group means `group`.

    Ranks are counted within it, from 0. Collectives that the course has built itself
    are carried out by its own messages, so that a `MessageMeter` sees every byte.
    """

    outer = group

    def named(group):
        return outer if group is None else group

    def rank(group=None) -> int:
        return TORCH_RANK(named(group))

    def size(group=None) -> int:
        return TORCH_SIZE(named(group))

    def message(operation, tensor: Tensor, peer: int) -> dist.P2POp:
        return TORCH_P2P(operation, tensor, group=outer, group_peer=peer)

    def broadcast(tensor: Tensor, src: int = 0, group=None):
        return TORCH_BROADCAST(tensor, group=named(group), group_src=src)

    def objects(told: list, src: int = 0, device=None):
        return TORCH_OBJECTS(told, group=outer, group_src=src, device=device)

    def all_reduce(tensor: Tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
        with group_as_world(named(group)):
            return _ring_sum(tensor, op, async_op)

    def all_gather(pieces: list[Tensor], tensor: Tensor, group=None):
        with group_as_world(named(group)):
            eight_collectives.all_gather(pieces, tensor)

    def reduce_scatter(tensor: Tensor, pieces: list[Tensor], group=None):
        with group_as_world(named(group)):
            eight_collectives.reduce_scatter(tensor, pieces)

    with mock.patch.multiple(
        dist,
        get_rank=rank,
        get_world_size=size,
        P2POp=message,
        broadcast=broadcast,
        broadcast_object_list=objects,
        all_reduce=all_reduce,
        all_gather=all_gather,
        reduce_scatter=reduce_scatter,
    ):
        yield


def _ring_sum(tensor: Tensor, op, async_op: bool) -> Future | None:
    if op != dist.ReduceOp.SUM:
        raise ValueError("our ring only sums")
    ring_all_reduce(tensor)
    return finished() if async_op else None
