"""How shards travel: the library's collectives, our own, or a slow wire of 11's kind."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from time import sleep

import torch
import torch.distributed as dist

from sidebyside import span


class DirectLink:
    """Collectives inside this computer. They are begun, and whoever needs them waits."""

    def all_gather(self, pieces: list[torch.Tensor], mine: torch.Tensor):
        return dist.all_gather(pieces, mine, async_op=True)

    def reduce_scatter(self, mine: torch.Tensor, pieces: list[torch.Tensor]):
        return dist.reduce_scatter(mine, pieces, async_op=True)


class OurLink:
    """The same by functions of ours with torch's names, whose messages a meter counts.

    `collectives` may be `demos.collectives.parts.eight_collectives` of lesson 10a.
    """

    def __init__(self, collectives):
        self.collectives = collectives

    def all_gather(self, pieces: list[torch.Tensor], mine: torch.Tensor):
        return _done(self.collectives.all_gather(pieces, mine))

    def reduce_scatter(self, mine: torch.Tensor, pieces: list[torch.Tensor]):
        return _done(self.collectives.reduce_scatter(mine, pieces))


def _done(result=None) -> Future:
    done = Future()
    done.set_result(result)
    done.wait = done.result
    return done


class SlowWire:
    """A cable of so many bytes per second: one collective at a time, in their order.

    As in lesson 11 the collective goes through gloo or NCCL, and a sleep makes up the
    time that (N - 1)/N of the tensor would take. Each is a span of the lane "wire".
    """

    def __init__(self, bytes_per_second: float):
        self.bytes_per_second = bytes_per_second
        self.wire = ThreadPoolExecutor(1, thread_name_prefix="wire")
        self.mark: Callable = nullcontext  # `span` in the step that is drawn

    def all_gather(self, pieces: list[torch.Tensor], mine: torch.Tensor):
        call = lambda: dist.all_gather(pieces, mine)  # noqa: E731
        return self._send("gather", call, mine.nbytes)

    def reduce_scatter(self, mine: torch.Tensor, pieces: list[torch.Tensor]):
        call = lambda: dist.reduce_scatter(mine, pieces)  # noqa: E731
        return self._send("reduce", call, mine.nbytes)

    def _send(self, name: str, collective: Callable, size: int) -> Future:
        travelling = self.wire.submit(self._carry, name, collective, size)

        def wait() -> None:
            with self.mark("wait"):
                travelling.result()

        travelling.wait = wait
        return travelling

    def _carry(self, name: str, collective: Callable, size: int) -> None:
        with self.mark("wait"):
            dist.barrier()  # until the other ranks have come here
        with self.mark(name):
            collective()
            sleep((dist.get_world_size() - 1) * size / self.bytes_per_second)
