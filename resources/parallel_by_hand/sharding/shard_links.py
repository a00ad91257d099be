"""How shards travel: the library's collectives, our own, or a slow wire of 11b's kind.

A link has two calls. `gather(flat, kept)` fills `flat` with what all ranks keep;
`reduce(mine, flat)` fills `mine` with this rank's shard of the sum of all `flat`. Both
return something whose `wait()` ends when it is done.
"""

# A message on its way is a Future that can `wait` as torch's can.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from threading import current_thread
from time import sleep

import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.sharding.flat_shards import (
    own_shard,
    ring_all_gather,
    ring_reduce_scatter,
)
from parallel_by_hand.tensor_parallel.messages_of_ours import finished


def _shards_of(flat: Tensor, group=None) -> list[Tensor]:
    """The shards of a flat tensor, in rank order: views, not copies."""
    return list(flat.chunk(dist.get_world_size(group)))


class DirectLink:
    """The library's collectives. They begin at once; whoever needs them waits."""

    def __init__(self, group=None):
        self.group = group

    def gather(self, flat: Tensor, kept: Tensor):
        pieces = _shards_of(flat, self.group)
        return dist.all_gather(pieces, kept, group=self.group, async_op=True)

    def reduce(self, mine: Tensor, flat: Tensor):
        pieces = _shards_of(flat, self.group)
        return dist.reduce_scatter(mine, pieces, group=self.group, async_op=True)


class RingLink:
    """Lesson 10b's ring in its two halves: messages that a meter can count."""

    def __init__(self, group=None):
        self.group = group

    def gather(self, flat: Tensor, kept: Tensor):
        own_shard(flat, self.group).copy_(kept)
        ring_all_gather(flat, self.group)
        return finished()

    def reduce(self, mine: Tensor, flat: Tensor):
        mine.copy_(ring_reduce_scatter(flat, group=self.group))
        return finished()


class SlowWire:
    """A cable of so many bytes per second: one collective at a time, in their order.

    As in lesson 11b, the collective goes through gloo or NCCL and a sleep makes up the
    time: that of (N - 1) / N of the tensor, as in a ring.
    """

    def __init__(self, bytes_per_second: float):
        self.bytes_per_second = bytes_per_second
        self.wire = ThreadPoolExecutor(1, initializer=_name_wire)
        self.mark: Callable = nullcontext  # `span` in the step that is drawn

    def gather(self, flat: Tensor, kept: Tensor):
        return self._send("gather", dist.all_gather, _shards_of(flat), kept)

    def reduce(self, mine: Tensor, flat: Tensor):
        return self._send("scatter", dist.reduce_scatter, mine, _shards_of(flat))

    def _send(self, name: str, collective: Callable, *tensors) -> Future:
        travelling = self.wire.submit(self._carry, name, collective, tensors)
        travelling.wait = lambda: self._wait(travelling)
        return travelling

    def _wait(self, travelling: Future) -> None:
        with self.mark("wait"):
            travelling.result()

    def _carry(self, name: str, collective: Callable, tensors: tuple) -> None:
        size = sum(t.nbytes for t in tensors if isinstance(t, Tensor))  # a shard's
        with self.mark("wait"):
            dist.barrier()  # until the other ranks have come here
        with self.mark(name):
            collective(*tensors)
            sleep((dist.get_world_size() - 1) * size / self.bytes_per_second)


def _name_wire() -> None:
    current_thread().name = "wire"  # so is its lane in a timeline
