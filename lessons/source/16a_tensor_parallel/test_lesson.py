"""A split layer gives what the unsplit one gives, and sends what is promised."""

from functools import partial
from itertools import product

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel import dropout_streams, pair_costs
from parallel_by_hand.tensor_parallel.conjugates import copy_to_ranks, sum_over_ranks
from parallel_by_hand.tensor_parallel.mlp import (
    MLPBlock,
    gap_to_whole,
    meter_block,
    split_as_pair,
)
from parallel_by_hand.tensor_parallel.split_layer import (
    labelled_matrix,
    outputs_by_columns,
    outputs_by_rows,
)
from sidebyside import run_ranks

# One layer ----------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_columns_side_by_side_and_rows_added_up_are_the_whole(ranks):
    x, matrix = torch.ones(1, 4, dtype=torch.int64), labelled_matrix(4, 5)
    columns = outputs_by_columns(x, matrix, ranks)
    assert torch.equal(torch.cat(columns, 1), x @ matrix)
    assert torch.equal(sum(outputs_by_rows(x, matrix, ranks)), x @ matrix)


def test_the_lessons_numbers_need_one_sum_only_in_the_order_columns_and_rows():
    x, first = torch.tensor([[1, 2]]), torch.tensor([[1, 2, -1, 0], [1, -2, 1, 2]])
    second = torch.tensor([[1, 0], [2, 1], [0, 3], [1, -1]])
    halves = (slice(0, 2), slice(2, 4))
    summands = [(x @ first[:, mine]).relu() @ second[mine] for mine in halves]
    assert torch.equal(sum(summands), (x @ first).relu() @ second)
    rows = outputs_by_rows(x, first, 2)
    assert not torch.equal(sum(rows).relu(), sum(row.relu() for row in rows))


# The pair and the naive way -----------------------------------------------------------


CALLS = {
    "pair": (["all_reduce"], ["all_reduce"]),
    "naive": (["all_gather"] * 2, ["all_reduce"] * 2),
}


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize(("how", "more"), [("pair", 1), ("naive", 3.75)])
def test_the_pair_calls_two_and_the_naive_way_four_with_15_fourths_of_the_bytes(
    how, more, ranks
):
    for bill in run_ranks(meter_block, how, 16, 6, world_size=ranks):
        assert bill["calls"] == CALLS[how]
        assert bill["bytes"] == more * 2 * 2 * (ranks - 1) / ranks * 6 * 16 * 4
        assert max(bill["gaps"].values()) < 1e-12


def make_blocks() -> nn.Sequential:
    torch.manual_seed(0)
    blocks = MLPBlock(8), MLPBlock(8)
    return nn.Sequential(nn.Linear(6, 8), *blocks, nn.Linear(8, 3)).double()


def train_beside_whole(split_block) -> tuple[list[float], torch.Tensor]:
    """Runs in each rank: the gap after each of ten steps, and the first layer."""
    whole, split, gaps = make_blocks(), make_blocks(), []
    split[1], split[2] = map(split_block, split[1:3])
    for step in range(10):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(2, 12, 6, generator=generator, dtype=torch.float64)
        for network in (whole, split):
            network.zero_grad()
            F.mse_loss(network(x), y[:, :3]).backward()
            torch.optim.SGD(network.parameters(), lr=0.1).step()
        gaps.append(gap_to_whole(split, whole))
    return gaps, split[0].weight.detach()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_split_network_equals_the_unsplit_one_after_every_step(ranks):
    found = run_ranks(train_beside_whole, split_as_pair, world_size=ranks)
    for gaps, first_layer in found:
        assert all(gap < 1e-12 for gap in gaps)
        assert torch.equal(first_layer, found[0][1]), "replicas: bit for bit"


def gradient_by_the_librarys_function() -> float:
    from torch.distributed.nn.functional import all_reduce

    x = torch.tensor(3.0, requires_grad=True)
    all_reduce(copy_to_ranks(x) * (2, 5)[dist.get_rank()]).backward()
    return x.grad.item()


def gradient_by_hand(conjugate: bool) -> float:
    x = torch.tensor(3.0, requires_grad=True)
    copied = copy_to_ranks(x) if conjugate else x
    sum_over_ranks(copied * (2, 5)[dist.get_rank()]).backward()
    return x.grad.item()


def test_the_numbers_of_exercise_2():
    assert run_ranks(gradient_by_hand, True) == [7, 7]
    assert run_ranks(gradient_by_hand, False) == [2, 5]
    assert run_ranks(gradient_by_the_librarys_function) == [14, 14]


# Dropout ------------------------------------------------------------------------------


@pytest.mark.parametrize(("inside", "after"), list(product(("equal", "own"), repeat=2)))
def test_replicas_stay_equal_if_the_streams_after_the_sum_are_equal(inside, after):
    settings = inside, after, 0.5, 5
    one, other = run_ranks(dropout_streams.train_with_streams, *settings)
    assert torch.equal(one, other) == (after == "equal")


def test_equal_streams_drop_neurons_of_all_ranks_together():
    for kind, together in (("equal", 0.5), ("own", 0.25)):
        zeros = run_ranks(dropout_streams.dropped_together, kind, 0.5, 4000)
        assert torch.equal(*zeros) == (kind == "equal")
        both = (zeros[0] & zeros[1]).double().mean().item()
        assert both == pytest.approx(together, abs=0.03)


# What it costs ------------------------------------------------------------------------


def test_the_lessons_links_turn_the_order_round():
    fast, slow = (0.002, 1125e-9), (0.01, 11250e-9)
    seconds = partial(pair_costs.pair_seconds, work=0.9, size=40_000)
    two, eight = (seconds(n, alpha=fast[0], beta=fast[1]) for n in (2, 8))
    assert eight < two < 0.9 and 0.9 / eight == pytest.approx(2.8, abs=0.05)
    two, eight = (seconds(n, alpha=slow[0], beta=slow[1]) for n in (2, 8))
    assert 0.9 < two < eight
    all_reduces = [seconds(n, work=0, alpha=1, beta=1) for n in range(1, 9)]
    assert all_reduces == sorted(all_reduces), "they don't shrink with more ranks"


def test_across_machines_eight_gpus_talk_for_longer_than_they_compute():
    fast, slow = pair_costs.GPU_LINKS.values()
    share = partial(pair_costs.communication_over_arithmetic, 8)
    for width, there, across in ((4096, 0.63, 5.6), (16384, 0.16, 1.4)):
        flops = pair_costs.H100_FLOPS
        assert share(width, flops, fast) == pytest.approx(there, abs=0.01)
        assert share(width, flops, slow) == pytest.approx(across, abs=0.05)


# The library --------------------------------------------------------------------------


def take_plain_step(network: nn.Module, x: torch.Tensor) -> None:
    network.zero_grad()
    network(x.clone().requires_grad_()).square().mean().backward()
    torch.optim.SGD(network.parameters(), lr=0.1, foreach=False).step()


def train_library_beside_ours() -> tuple[float, list]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel
    from torch.distributed.tensor.debug import CommDebugMode

    torch.manual_seed(0)
    block = MLPBlock(8).double()
    ours = split_as_pair(block)
    plan = {"wide": parallel.ColwiseParallel(), "narrow": parallel.RowwiseParallel()}
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    theirs = parallel.parallelize_module(block, mesh, plan)
    gaps, counts = [], []
    for _ in range(5):
        x = torch.randn(6, 8, dtype=torch.float64)
        take_plain_step(ours, x)
        with CommDebugMode() as mode:
            take_plain_step(theirs, x)
        counts.append(mode.get_total_counts())
        for mine, library in zip(ours.parameters(), theirs.parameters(), strict=True):
            local = getattr(library, "to_local", lambda p=library: p)()
            gaps.append((mine - local).abs().max().item())
    return max(gaps), counts


def test_dtensor_trains_the_same_with_as_many_collectives():
    for gap, counts in run_ranks(train_library_beside_ours):
        assert gap < 1e-12 and counts == [2] * 5, "one forward, one backward"
