"""Experts on ranks give the outputs and gradients of the whole layer on one."""

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.experts.beside_whole import (
    compare_with_whole,
    loss_of_layer,
    tokens_of_ranks,
)
from parallel_by_hand.experts.expert_layer import (
    Limits,
    SendRows,
    make_expert_layer,
    split_all_experts,
    split_experts,
)
from sidebyside import run_ranks
from sidebyside.ranks.failures import RankFailed


@pytest.mark.parametrize(("ranks", "copies"), [(1, 1), (2, 1), (4, 1), (4, 2), (4, 4)])
@pytest.mark.parametrize("factor", [None, 1.0])
def test_experts_on_ranks_equal_the_whole(ranks, copies, factor):
    limits = Limits(factor)
    for found in run_ranks(compare_with_whole, copies, limits, 0.1, world_size=ranks):
        assert found["other outputs"] == 0
        assert max(found["gradient of x"], found["shared"], found["experts"]) < 1e-12


@pytest.mark.parametrize("copies", [1, 4])  # 4: all experts on each rank, as with DDP
def test_a_capacity_per_rank_is_another_model(copies):
    found = run_ranks(compare_with_whole, copies, Limits(1.0, True), world_size=4)
    assert all(one["other outputs"] > 0 for one in found)


def rows_and_gradients() -> tuple[list, list]:
    """Lesson 10a's example: rank 0 sends three rows to itself and two to rank 1."""
    rank = dist.get_rank()
    to_each, from_each = ([3, 2], [3, 1]) if rank == 0 else ([1, 1], [2, 1])
    rows = torch.full((sum(to_each), 1), 10.0**rank).requires_grad_()
    room = SendRows.apply(rows, to_each, from_each, None)
    (room * (rank + 1)).sum().backward()
    return room.flatten().tolist(), rows.grad.flatten().tolist()


def test_the_gradient_of_a_row_comes_home():
    first, second = run_ranks(rows_and_gradients)
    assert first == ([1, 1, 1, 10], [1, 1, 1, 2, 2])
    assert second == ([1, 1, 10], [1, 2])


def gaps_by_neurons() -> tuple[float, float]:
    """Runs in each rank: output and gradient of the router, beside the whole layer."""
    whole = make_expert_layer().double()
    mine = split_all_experts(whole)
    whole.limits = mine.limits
    x = tokens_of_ranks(12, 16)
    (y, loss), (expected, loss_of_whole) = (
        loss_of_layer(layer, x, 0.1) for layer in (mine, whole)
    )
    loss.backward()
    loss_of_whole.backward()
    gap = mine.router.weight.grad - whole.router.weight.grad
    return (y - expected).abs().max().item(), gap.abs().max().item()


def test_experts_split_by_neurons_equal_the_whole():
    for gaps in run_ranks(gaps_by_neurons, world_size=4):
        assert max(gaps) < 1e-12


def test_experts_that_do_not_divide_by_ranks_are_refused():
    eight = make_expert_layer(experts=8)
    with pytest.raises(RankFailed, match="8 experts on 3 ranks"):
        run_ranks(lambda: split_experts(eight, dist.group.WORLD), world_size=3)
