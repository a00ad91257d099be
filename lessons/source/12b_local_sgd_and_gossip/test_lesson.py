"""Local SGD talks H times less; gossip agrees as the eigenvalue says, and survives."""

import math

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.nn.utils import vector_to_parameters

from parallel_by_hand.decentralised.gossip import (
    agreement_factor,
    ring_mixing_matrix,
)
from parallel_by_hand.decentralised.killed_peer import train_with_a_kill
from parallel_by_hand.decentralised.local_sgd import (
    drift,
    flat_parameters,
    local_batches,
    local_step,
    loss_of,
    train_local_sgd,
)
from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
)
from sidebyside import run_ranks

# Local SGD ----------------------------------------------------------------------------


def test_no_rank_sees_more_than_four_digits_of_sorted_images():
    _, labels = digits_here("train")
    for rank in range(4):
        mine = torch.cat(local_batches(rank, 4, 128, in_order=True))
        assert len(labels[mine].unique()) <= 4


def losses_with(cases: list[tuple]) -> list[float]:
    """Runs in each rank: the last loss for each (every, in_order, outer, seed)."""
    runs = [train_local_sgd(every, 128, *options) for every, *options in cases]
    return [loss_of(run.history[-1]) for run in runs]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.everything)])
def test_rare_meetings_cost_more_with_shares_that_differ(seed):
    cases = [(e, in_order, False, seed) for in_order in (False, True) for e in (1, 64)]
    losses = run_ranks(losses_with, cases, world_size=4)[0]
    alike, differ = losses[1] - losses[0], losses[3] - losses[2]
    assert differ > 3 * abs(alike)
    assert losses[1] < 0.25 < 1 < losses[3]


def test_an_outer_step_with_momentum_helps_with_a_meeting_after_each_step_too():
    cases = [(1, False, False, 0), (1, False, True, 0)]
    plain, outer = run_ranks(losses_with, cases, world_size=4)[0]
    assert outer < 0.85 * plain


@pytest.mark.everything
def test_in_nine_runs_with_other_seeds_the_outer_step_helps_as_the_lesson_says():
    cases = [(16, False, o, seed) for seed in range(10) for o in (False, True)]
    losses = run_ranks(losses_with, cases, world_size=4)[0]
    shares = [outer / plain for plain, outer in zip(*[iter(losses)] * 2, strict=True)]
    first, *others = shares
    assert first < 0.5 and len(others) == 9
    assert all(0.4 < share < 0.8 for share in others)


def shares_read(flat: torch.Tensor) -> list[float]:
    """For each digit, the share of its training images that the model reads."""
    images, labels = digits_here("train")
    model = digits_network()
    vector_to_parameters(flat.to(images.device), model.parameters())
    right = model(images).argmax(1) == labels
    return [right[labels == digit].float().mean().item() for digit in range(10)]


def test_with_sorted_images_ranks_drift_twice_as_far_and_lose_a_digit():
    alike, differ = (
        run_ranks(train_local_sgd, 64, 128, in_order, world_size=4)
        for in_order in (False, True)
    )
    assert drift(differ).max() / drift(alike).max() == pytest.approx(1.8, abs=0.2)
    read = shares_read(differ[0].history[-1])
    assert min(read) == read[8] == pytest.approx(0.1, abs=0.05)


def test_a_row_of_three_that_is_left_agrees_more_slowly_than_the_ring_of_four():
    row = torch.tensor([[2.0, 1, 0], [1, 1, 1], [0, 1, 2]], dtype=torch.float64) / 3
    assert agreement_factor(row) == pytest.approx(2 / 3)
    assert agreement_factor(ring_mixing_matrix(4)) == pytest.approx(1 / 3)


def average_with_torch(every: int, steps: int) -> torch.Tensor:
    model, averager = digits_network(), PeriodicModelAverager(every, every - 1)
    for mine in local_batches(dist.get_rank(), dist.get_world_size(), steps):
        local_step(model, mine)
        for parameter in model.parameters():  # it leaves out what has no gradient
            parameter.grad = torch.zeros_like(parameter)
        averager.average_parameters(list(model.parameters()))
    return flat_parameters(model).cpu()


def test_the_librarys_averager_meets_as_we_do():
    ours = run_ranks(train_local_sgd, 4, 12, world_size=2)
    for run, theirs in zip(
        ours, run_ranks(average_with_torch, 4, 12, world_size=2), strict=True
    ):
        torch.testing.assert_close(run.history[-1], theirs, atol=1e-5, rtol=0)


# Gossip -------------------------------------------------------------------------------


def test_twice_the_peers_need_four_times_the_rounds_on_a_long_ring():
    for ranks, near in ((8, 0.2), (32, 0.02), (128, 0.01)):
        few, many = (
            agreement_factor(ring_mixing_matrix(n)) for n in (ranks, 2 * ranks)
        )
        assert math.log(few) / math.log(many) == pytest.approx(4, abs=4 * near)


def test_gossip_survives_a_killed_peer_and_an_all_reduce_does_not():
    left = train_with_a_kill(killed=2, at=8, steps=40)
    assert {rank: peer["steps"] for rank, peer in left.items()} == {0: 40, 1: 40, 3: 40}
    start = loss_of(flat_parameters(digits_network()))
    assert all(loss_of(peer["model"]) < 0.8 * start for peer in left.values())
    left = train_with_a_kill(killed=2, at=8, steps=40, all_reduce=True)
    assert {rank: peer["steps"] for rank, peer in left.items()} == {0: 8, 1: 8, 3: 8}
