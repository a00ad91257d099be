"""A link that takes a known time for each message, between ranks of one computer.

It is simulated: the message goes through gloo or NCCL as always, and a sleep makes up
the time. Sleeping needs no core, so eight ranks can show on two cores what eight
computers would do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, sleep
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d


class PacedLink:
    """Where this rank is connected: one way out and one way in.

    A message takes alpha + beta * bytes seconds, and each way carries one message at a
    time. So to send to three ranks takes three times as long as to send to one, and
    three that send to this rank at once queue; to send and to receive at the same time
    costs nothing extra.
    """

    def __init__(self, alpha: float, beta: float):
        self.alpha, self.beta = alpha, beta
        self.sends, self.receives = dist.isend, dist.irecv
        self.arrived = 0.0  # when the last message was in

    def seconds(self, tensor: torch.Tensor) -> float:
        return self.alpha + self.beta * tensor.nbytes

    def isend(self, tensor: torch.Tensor, *args, **options) -> dist.Work | None:
        """The rank is busy until the message is out: this does not return at once."""
        sleep(self.seconds(tensor))
        return self.sends(tensor, *args, **options)

    def irecv(self, tensor: torch.Tensor, *args, **options) -> "ArrivingMessage":
        return ArrivingMessage(self, tensor, self.receives(tensor, *args, **options))


class ArrivingMessage:
    """A message over a paced link: it cannot arrive before the one ahead of it."""

    def __init__(self, link: PacedLink, tensor: torch.Tensor, work: dist.Work | None):
        self.link, self.seconds, self.work = link, link.seconds(tensor), work

    def wait(self, *args) -> bool:
        done = self.work.wait(*args)
        behind_last = self.link.arrived + self.seconds
        sleep(max(0.0, behind_last - perf_counter()))
        self.link.arrived = perf_counter()
        return done

    def __getattr__(self, name: str):  # _source_rank, is_completed
        return getattr(self.work, name)


@contextmanager
def paced_link(alpha: float, beta: float) -> Iterator[PacedLink]:
    """Inside a rank: every point-to-point message takes alpha + beta * bytes seconds.

    `alpha` is in seconds, `beta` in seconds per byte. `send`, `recv`, `isend`, `irecv`
    and `batch_isend_irecv` of `torch.distributed` are paced, in whatever code is called
    inside; collectives such as `dist.all_reduce` are not, for they send inside the
    library. On GPUs (NCCL) only the sender sleeps: messages that come in do not queue.
    """
    link = PacedLink(alpha, beta)
    with messages_paced_by(link):
        yield link


@contextmanager
def messages_paced_by(link: PacedLink) -> Iterator[None]:
    """Inside a rank: every point-to-point message goes through this paced `link`."""
    paced = {"isend": link.isend, "irecv": link.irecv}  # torch compares them by `is`
    patched = (
        mock.patch.multiple(where, **paced) for where in (distributed_c10d, dist)
    )
    with next(patched), next(patched):
        yield
