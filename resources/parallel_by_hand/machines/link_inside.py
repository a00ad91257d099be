"""The link between two machines that are not there: simulated inside one machine.

The ranks are told that they sit on several machines. What they send to a rank on
another machine takes as long as its bytes would on the link: a sleep makes up the time,
as on lesson 10b's paced link. A machine has one cable, which its ranks share.
"""

import contextlib
import os
from collections.abc import Iterator
from time import sleep
from unittest import mock

import torch
import torch.distributed as dist

from parallel_by_hand.collectives.paced_link import (
    ArrivingMessage,
    PacedLink,
    messages_paced_by,
)


class LinkInside(PacedLink):
    """Paces what crosses from one pretended machine to another; the rest is free."""

    def __init__(self, rate: float, ranks_per_machine: int, folder: str):
        super().__init__(alpha=0, beta=8e-6 / rate)
        self.machine_of = lambda rank: rank // ranks_per_machine
        self.here = self.machine_of(dist.get_rank())
        self.cable = os.path.join(folder, f"cable-{self.here}")
        paced = "all_reduce", "all_gather"
        self.library = {name: getattr(dist, name) for name in paced}

    def crosses(self, args: tuple, options: dict, end: str) -> bool:
        """Whether the rank at the other end sits on another machine. It stands first
        among `args`, or is named; torch's own send and recv name it in its group."""
        peer = args[0] if args else options.get(end)
        if peer is None and options.get(f"group_{end}") is not None:
            group = options.get("group") or dist.group.WORLD
            place = options[f"group_{end}"]
            peer = dist.get_global_rank(group, place)  # pyright: ignore[reportArgumentType]  there is a WORLD
        return peer is None or self.machine_of(peer) != self.here

    def isend(self, tensor: torch.Tensor, *args, **options) -> dist.Work | None:
        if self.crosses(args, options, "dst"):
            self.carry(tensor.nbytes)
        return self.sends(tensor, *args, **options)

    def irecv(
        self, tensor: torch.Tensor, *args, **options
    ) -> ArrivingMessage | dist.Work | None:
        work = self.receives(tensor, *args, **options)
        crosses = self.crosses(args, options, "src")
        return ArrivingMessage(self, tensor, work) if crosses else work

    def carry(self, size: float) -> None:
        """Take as long as `size` bytes do, while no other rank uses this cable."""
        with one_process_at_a_time(self.cable):
            sleep(self.beta * size)

    def all_reduce(self, tensor: torch.Tensor, *args, **options):
        """The library's, round a ring of all ranks: its bytes take their time first."""
        ranks = dist.get_world_size()
        self.carry(2 * (ranks - 1) / ranks * tensor.nbytes)
        return self.library["all_reduce"](tensor, *args, **options)

    def all_gather(self, tensors: list, tensor: torch.Tensor, *args, **options):
        self.carry((dist.get_world_size() - 1) * tensor.nbytes)
        return self.library["all_gather"](tensors, tensor, *args, **options)


@contextlib.contextmanager
def one_process_at_a_time(path: str) -> Iterator[None]:
    """A link's processes that name the same file take turns; where there is no lock
    (Windows), they do not."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def link_inside(rate: float, ranks_per_machine: int, folder: str) -> Iterator[None]:
    """Inside a rank: messages, `dist.all_reduce` and `dist.all_gather` are paced."""
    link = LinkInside(rate, ranks_per_machine, folder)
    paced = {name: getattr(link, name) for name in link.library}
    with messages_paced_by(link), mock.patch.multiple(dist, **paced):
        yield
