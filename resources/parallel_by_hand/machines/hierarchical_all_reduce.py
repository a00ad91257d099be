"""All-reduce over a slow link: one flat ring of all ranks, or hierarchical."""

import os
import tempfile
from time import perf_counter
from typing import NamedTuple

import psutil
import torch
import torch.distributed as dist

from parallel_by_hand.machines.link_inside import link_inside
from parallel_by_hand.machines.ring_among import ring_among
from sidebyside import MessageMeter, device, span


class HierarchicalCrossing(NamedTuple):
    """What one rank reports of an all-reduce."""

    seconds: float  # of the fastest round
    crossed: int  # bytes that this rank sent to ranks of other machines, per round
    counted: float  # MB that left through this machine's link, headers too; 0: unknown
    total: torch.Tensor  # the first number of the sum


def _flat_ring(tensor: torch.Tensor, per_machine: int) -> None:
    """One ring of all ranks, as torchrun numbers them: machine after machine."""
    ring_among(tensor, range(dist.get_world_size()))


def _dealt_ring(tensor: torch.Tensor, per_machine: int) -> None:
    """One ring of all ranks, in the order in which cards are dealt: every message goes
    to another machine."""
    world = dist.get_world_size()
    ring_among(
        tensor,
        [rank for n in range(per_machine) for rank in range(n, world, per_machine)],
    )


def hierarchical_all_reduce(tensor: torch.Tensor, per_machine: int) -> None:
    """Sum a contiguous `tensor` over all ranks, in place, in three steps.

    Reduce within each machine, to its first rank, the leader. All-reduce between the
    leaders. Broadcast within each machine. Of S bytes, 2 (H - 1) / H * S leave each of
    H machines, however many ranks it has.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    leader = rank - rank % per_machine
    others = range(leader + 1, leader + per_machine)
    if rank != leader:
        with span(f"to {leader}"):
            dist.send(tensor, leader)
        with span("wait"):
            dist.recv(tensor, leader)
        return
    received = torch.empty_like(tensor)
    for other in others:
        dist.recv(received, other)
        tensor += received
    ring_among(tensor, range(0, world, per_machine))
    for other in others:
        dist.send(tensor, other)


ALL_REDUCES_OF_MACHINES = {
    "flat ring": _flat_ring,
    "dealt ring": _dealt_ring,
    "hierarchical": hierarchical_all_reduce,
}


def time_across(
    way: str, elements: int, per_machine: int, rounds: int = 2
) -> HierarchicalCrossing:
    """Runs in each rank: an all-reduce, flat or hierarchical, of so many numbers."""
    all_reduce, seconds = ALL_REDUCES_OF_MACHINES[way], []
    all_reduce(torch.zeros(8, device=device()), per_machine)  # connections are made
    mine = dist.get_rank() // per_machine
    before = _link_megabytes()
    for _ in range(rounds):
        tensor = torch.full((elements,), 10.0 ** dist.get_rank(), device=device())
        dist.barrier()
        began = perf_counter()
        with MessageMeter() as meter:
            all_reduce(tensor, per_machine)
        dist.barrier()
        seconds.append(perf_counter() - began)
    sent = meter.sent_to.items()
    crossed = sum(size for to, size in sent if to // per_machine != mine)
    counted = (_link_megabytes() - before) / rounds
    return HierarchicalCrossing(min(seconds), crossed, counted, tensor[:1].cpu())


def rehearse_across(way: str, elements: int, per_machine: int, rate: float) -> None:
    """Runs in each rank of this machine: one all-reduce over the simulated link, for
    the timeline. The machines' cables are files in a folder that rank 0 makes."""
    with tempfile.TemporaryDirectory() as folder:
        folders = [folder]
        dist.broadcast_object_list(folders, 0)
        with link_inside(rate, per_machine, folders[0]):
            dist.barrier()  # all start together
            ALL_REDUCES_OF_MACHINES[way](
                torch.ones(elements, device=device()), per_machine
            )
        dist.barrier()


def _link_megabytes() -> float:
    """MB that have left through this machine's own link; 0 where there is none."""
    if os.environ.get("GLOO_SOCKET_IFNAME") != "eth0":
        return 0.0
    return psutil.net_io_counters(pernic=True)["eth0"].bytes_sent / 1e6


def bytes_across(found: list[HierarchicalCrossing], per_machine: int) -> int:
    """Bytes of an all-reduce, flat or hierarchical, that leave the first machine."""
    return sum(one.crossed for one in found[:per_machine])
