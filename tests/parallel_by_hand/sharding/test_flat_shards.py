"""Flat parameters, their rings, and the bytes behind them."""

from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.sharding.clipping import clip_across_shards
from parallel_by_hand.sharding.flat_shards import (
    FlatParameters,
    own_shard,
    ring_all_gather,
    ring_reduce_scatter,
)
from parallel_by_hand.sharding.ledger import (
    bytes_behind,
)
from parallel_by_hand.sharding.zero_1 import ZeRO1
from sidebyside import MessageMeter, run_ranks


def test_views_of_one_memory_count_once():
    flat = torch.zeros(10)
    assert bytes_behind([flat, flat[2:5], flat.view(2, 5)]) == 40
    assert bytes_behind([flat[:1]]) == 40, "all of the memory is held"
    assert bytes_behind([]) == 0


def clip_beside_torch(longest: float) -> tuple:
    torch.manual_seed(0)
    whole = torch.randn(7 * dist.get_world_size(), dtype=torch.float64)
    mine = own_shard(whole).clone()
    norm = clip_across_shards(list(mine.split([3, 0, 4])), longest)
    weight = nn.Parameter(torch.zeros_like(whole))
    weight.grad = whole.clone()
    expected = nn.utils.clip_grad_norm_([weight], longest)
    return norm, expected, mine, own_shard(weight.grad)


@pytest.mark.parametrize("longest", [0.5, 100.0])
def test_clipping_shards_is_clipping_the_whole(longest):
    for norm, expected, mine, whole in run_ranks(
        clip_beside_torch, longest, world_size=3
    ):
        torch.testing.assert_close(norm, expected)
        torch.testing.assert_close(mine, whole, rtol=1e-5, atol=0)


def rings_beside_the_library() -> tuple:
    torch.manual_seed(dist.get_rank())
    mine = torch.randn(6 * dist.get_world_size(), dtype=torch.float64)
    total = mine.clone()
    dist.all_reduce(total)
    with MessageMeter() as meter:
        shard = ring_reduce_scatter(mine)
    gathered = torch.zeros_like(total)
    own_shard(gathered).copy_(shard)
    ring_all_gather(gathered)
    return shard.clone(), own_shard(total), gathered, total, meter.bytes_sent


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_rings_halves_are_a_reduce_scatter_and_an_all_gather(ranks):
    results = run_ranks(rings_beside_the_library, world_size=ranks)
    for shard, expected, gathered, total, sent in results:
        torch.testing.assert_close(shard, expected)
        torch.testing.assert_close(gathered, total)
        assert torch.equal(gathered, results[0][2]), "the same bits on all ranks"
        assert sent == (ranks - 1) * 6 * 8


def flatten_frozen() -> tuple:
    network = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)).double()
    for p in network[0].parameters():
        p.requires_grad_(False)
    before = network[0].weight.clone()
    trained = ZeRO1(network, partial(torch.optim.SGD, lr=0.1))
    network(torch.ones(1, 3).double()).sum().backward()
    trained.step()
    return trained.units[0].numbers, torch.equal(before, network[0].weight)


def test_frozen_parameters_are_left_alone():
    assert run_ranks(flatten_frozen) == [(6, True), (6, True)]


def flatten_own_start() -> torch.Tensor:
    torch.manual_seed(dist.get_rank())
    layer = nn.Linear(2, 2)
    flat = FlatParameters(list(layer.parameters()))
    layer.bias.data.fill_(7)
    return flat.flat


def test_all_begin_with_rank_0s_numbers_and_parameters_are_views():
    for flat in (found := run_ranks(flatten_own_start, world_size=4)):
        assert torch.equal(flat, found[0]) and flat.tolist()[4:] == [7, 7, 0, 0]
