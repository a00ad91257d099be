"""The simulated link delays what crosses between its machines, and nothing else."""

import os

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.machines.hierarchical_all_reduce import ALL_REDUCES_OF_MACHINES
from parallel_by_hand.machines.link_inside import (
    LinkInside,
    link_inside,
    one_process_at_a_time,
)
from sidebyside import MessageMeter, run_ranks


def carried_beside_meter(folder: str) -> list[tuple]:
    """Runs in each rank: what its cable carried, and what it sent across."""
    rank, found = dist.get_rank(), []
    with pytest.MonkeyPatch.context() as patch, link_inside(1e6, 2, folder):
        carried = []
        patch.setattr(LinkInside, "carry", lambda self, size: carried.append(size))
        for all_reduce in ALL_REDUCES_OF_MACHINES.values():
            carried.clear()
            with MessageMeter() as meter:
                all_reduce(torch.ones(24), 2)
            across = sum(s for to, s in meter.sent_to.items() if to // 2 != rank // 2)
            found.append((sum(carried), across))
        carried.clear()
        dist.all_reduce(torch.ones(24))
        dist.all_gather([torch.ones(24) for _ in range(4)], torch.ones(24))
        found.append((sum(carried), 2 * 3 / 4 * 96 + 3 * 96))
    return found


def test_the_simulated_link_slows_what_crosses_and_nothing_else(tmp_path):
    for of_rank in run_ranks(carried_beside_meter, str(tmp_path), world_size=4):
        for carried, across in of_rank:
            assert carried == across


@pytest.mark.skipif(os.name != "posix", reason="there is no such lock")
def test_ranks_of_one_machine_share_its_cable(tmp_path):
    import fcntl

    path = tmp_path / "cable"
    with (
        one_process_at_a_time(str(path)),
        open(path) as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(path) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free again
