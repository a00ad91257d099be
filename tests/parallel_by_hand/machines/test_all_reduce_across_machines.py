"""A ring of some ranks, and all-reduces that know which ranks share a machine."""

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.machines.hierarchical_all_reduce import ALL_REDUCES_OF_MACHINES
from parallel_by_hand.machines.ring_among import ring_among
from sidebyside import MessageMeter, run_ranks


def sums_and_meters(per_machine: int, sizes: list[int]) -> list[tuple]:
    """Runs in each rank: for each way and size whether the sum is the library's, its
    first number, and bytes sent inside this machine and across."""
    rank, found = dist.get_rank(), []
    for name, all_reduce in ALL_REDUCES_OF_MACHINES.items():
        for size in sizes:
            tensor = torch.arange(float(size)) + 10.0**rank
            library = tensor.clone()
            dist.all_reduce(library)
            with MessageMeter() as meter:
                all_reduce(tensor, per_machine)
            mine = [to // per_machine == rank // per_machine for to in meter.sent_to]
            parts = [0, 0]
            for inside, sent in zip(mine, meter.sent_to.values(), strict=True):
                parts[inside] += sent
            found.append((name, size, torch.equal(tensor, library), *parts))
    return found


@pytest.mark.parametrize("cluster", [(1, 1), (2, 2), (3, 2), (1, 3)])
def test_every_way_gives_the_librarys_sum_and_sends_what_the_text_says(cluster):
    machines, per_machine = cluster
    ranks = machines * per_machine
    sizes = [36, 5, 1, 0]
    found = run_ranks(sums_and_meters, per_machine, sizes, world_size=ranks)
    for of_ranks in zip(*found, strict=True):
        name, size, *_ = of_ranks[0]
        assert all(equal for _, _, equal, *_ in of_ranks), (name, size)
        across = sum(sent for *_, sent, _ in of_ranks[:per_machine])
        if size % ranks or machines == 1:
            continue
        expected = {
            "flat ring": 2 * (ranks - 1) / ranks,
            "dealt ring": per_machine * 2 * (ranks - 1) / ranks,
            "hierarchical": 2 * (machines - 1) / machines,  # whatever per_machine is
        }
        assert across == expected[name] * 4 * size, (name, size)


RINGS = [[2], [3, 0], [3, 1, 0], [0, 2, 1, 3]]


def rings_of_some() -> list[torch.Tensor]:
    """Runs in each rank: all rings in one launch, for launching is slow."""
    tensors = []
    for members in RINGS:
        tensors.append(torch.full((7,), 10.0 ** dist.get_rank()))
        if dist.get_rank() in members:
            ring_among(tensors[-1], members)
    return tensors


def test_a_ring_sums_over_its_members_only_in_any_order():
    for rank, tensors in enumerate(run_ranks(rings_of_some, world_size=4)):
        for members, tensor in zip(RINGS, tensors, strict=True):
            total = sum(10**m for m in members) if rank in members else 10**rank
            assert tensor.tolist() == [total] * 7, members
