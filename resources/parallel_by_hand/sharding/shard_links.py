"""How shards travel: the library's collectives, our own, or a slow wire of 11b's kind.

A link has two calls. `gather(flat, kept)` fills `flat` with what all ranks keep;
`reduce(mine, flat)` fills `mine` with this rank's shard of the sum of all `flat`. Both
return something whose `wait()` ends when it is done.
"""

from collections.abc import Callable
from time import sleep

import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.collectives.eight_collectives import finished
from parallel_by_hand.ddp.overlap import SlowLink
from parallel_by_hand.sharding.flat_shards import (
    own_shard,
    ring_all_gather,
    ring_reduce_scatter,
)


def _shards_of(flat: Tensor, group=None) -> list[Tensor]:
    """The shards of a flat tensor, in rank order: views, not copies."""
    return list(flat.chunk(dist.get_world_size(group)))


class DirectLink:
    """Shards by the library's collectives. They begin at once; ranks wait at need."""

    def __init__(self, group=None):
        self.group = group

    def gather(self, flat: Tensor, kept: Tensor):
        pieces = _shards_of(flat, self.group)
        return dist.all_gather(pieces, kept, group=self.group, async_op=True)

    def reduce(self, mine: Tensor, flat: Tensor):
        pieces = _shards_of(flat, self.group)
        return dist.reduce_scatter(mine, pieces, group=self.group, async_op=True)


class RingLink:
    """Shards by lesson 10b's ring in two halves: messages that a meter can count."""

    def __init__(self, group=None):
        self.group = group

    def gather(self, flat: Tensor, kept: Tensor):
        own_shard(flat, self.group).copy_(kept)
        ring_all_gather(flat, self.group)
        return finished()

    def reduce(self, mine: Tensor, flat: Tensor):
        mine.copy_(ring_reduce_scatter(flat, group=self.group))
        return finished()


class SlowWire(SlowLink):
    """Shards over a slow link: so many bytes per second, one collective at a time.

    As in lesson 11b, the collective goes through gloo or NCCL and a sleep makes up the
    time: that of (N - 1) / N of the tensor, as in a ring.
    """

    bytes_per_second = 1.0

    def gather(self, flat: Tensor, kept: Tensor):
        return self.start("gather", dist.all_gather, _shards_of(flat), kept)

    def reduce(self, mine: Tensor, flat: Tensor):
        return self.start("scatter", dist.reduce_scatter, mine, _shards_of(flat))

    def carry(self, name: str, collective: Callable, *tensors) -> None:
        size = sum(t.nbytes for t in tensors if isinstance(t, Tensor))  # a shard's
        with self.mark("wait"):
            dist.barrier()  # until the other ranks have come here
        with self.mark(name):
            collective(*tensors)
            sleep((dist.get_world_size() - 1) * size / self.bytes_per_second)
