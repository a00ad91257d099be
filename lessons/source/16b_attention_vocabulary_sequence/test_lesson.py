"""Split attention, vocabulary and sequence give what the whole model gives."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.model_parallel.transformer_block import (
    make_transformer_block,
)
from parallel_by_hand.tensor_parallel import (
    split_block,
    vocabulary,
)
from parallel_by_hand.tensor_parallel.activation_bytes import (
    LayerSize,
    kept_by_layer,
    published_bytes,
)
from parallel_by_hand.tensor_parallel.block_rows import (
    compare_split_block,
)
from parallel_by_hand.tensor_parallel.sequence_conjugates import (
    own_positions,
)
from sidebyside import run_ranks

WAYS = list(split_block.ENDS)

# Attention and the block --------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 5])  # one more than heads
def test_a_block_split_by_heads_calls_two_all_reduces_each_way(ranks):
    for found in run_ranks(compare_split_block, world_size=ranks):
        assert found["calls"] == (["all_reduce"] * 2, ["all_reduce"] * 2)
        assert found["output"] < 1e-12 and found["gradient of x"] < 1e-10


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_halves_of_an_all_reduce_move_its_bytes(ranks):
    found = {w: run_ranks(compare_split_block, w, world_size=ranks)[0] for w in WAYS}
    for way in WAYS:
        assert found[way]["output"] < 1e-12 and found[way]["gradient of x"] < 1e-10
    halves = sorted(["all_gather", "reduce_scatter"] * 2)
    for calls in found["sequence"]["calls"]:
        assert sorted(calls) == halves
    assert found["sequence"]["bytes"] == found["tensor"]["bytes"]
    assert found["tensor"]["bytes"] == 8 * (ranks - 1) / ranks * 2 * 12 * 24 * 4
    assert found["gather twice"]["bytes"] == 1.25 * found["tensor"]["bytes"]
    assert found["gather twice"]["calls"][1].count("all_gather") == 4


# The vocabulary -----------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("scale", [1, 1000])
def test_both_losses_are_the_whole_one_and_v_sixths_apart_in_bytes(ranks, scale):
    bills = {}
    for way in vocabulary.LOSSES:
        found = run_ranks(vocabulary.meter_loss, way, 48, 8, scale, world_size=ranks)
        bills[way] = found[0]["bytes"]
        for one in found:
            assert one["loss"] < 1e-10 and one["gradient"] < 1e-10
    assert bills["parallel"] == 3 * 2 * (ranks - 1) / ranks * 8 * 4
    assert bills["gathered"] == 48 / 6 * bills["parallel"]


def loss_of_exercise(labels: list[int]) -> tuple[float, list]:
    logits = torch.tensor([[0.0, 3.0, 4.0]]).double()
    logits[:, 1:] = logits[:, 1:].log()
    rank = dist.get_rank()
    part = logits[:, 2:] if rank else logits[:, :2]
    part = part.clone().requires_grad_()
    loss = vocabulary.vocabulary_cross_entropy(part, torch.tensor(labels), 2 * rank)
    loss.backward()
    return loss.item(), part.grad[0].tolist()


def test_the_numbers_of_exercise_1():
    (loss, first), (_, second) = run_ranks(loss_of_exercise, [1])
    assert loss == pytest.approx(0.98, abs=0.005)
    assert first == pytest.approx([1 / 8, -5 / 8]) and second == pytest.approx([1 / 2])


# Exercise 2: which gradients are summands ---------------------------------------------


def sums_of_out_bias() -> tuple[float, list[float]]:
    """Runs in each rank: one number's gradient here and whole; loss: sum of outputs."""
    whole = make_transformer_block(4, 2)[0]
    mine = split_block.split_block(
        nn.Sequential(whole, make_transformer_block(4, 2)[1]),
        split_block.ENDS["sequence"],
    )[0]
    x = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0))
    mine(own_positions(x).contiguous()).sum().backward()
    whole(x).sum().backward()
    return mine.out.bias.grad[0].item(), whole.out.bias.grad[0].item()


def test_the_numbers_of_exercise_2():
    for mine, whole in run_ranks(sums_of_out_bias):
        assert (mine, whole) == (2, 4)


# What a layer keeps -------------------------------------------------------------------

SIZES = [LayerSize(64, 2, 64, 4), LayerSize(16, 3, 32, 8)]


@pytest.mark.parametrize("size", SIZES)
def test_a_layer_keeps_what_the_paper_says_to_the_byte(size):
    whole = run_ranks(kept_by_layer, "tensor", size, world_size=1)[0]
    left_over = 8 * size.s * size.b  # two norms, mean and spread, two bytes each
    assert whole - published_bytes("tensor", size, 1) == left_over
    for way in WAYS:
        kept = run_ranks(kept_by_layer, way, size, world_size=4)
        norms = left_over if way == "tensor" else left_over / 4
        assert set(kept) == {published_bytes(way, size, 4) + norms}


@pytest.mark.everything
def test_fused_attention_keeps_nothing_that_grows_with_the_square_of_the_text():
    kept = {}
    for attention in ("plain", "fused"):
        for s in (32, 64):
            settings = "tensor", LayerSize(s, 2, 64, 4), "torch", attention
            kept[attention, s] = run_ranks(kept_by_layer, *settings, world_size=1)[0]
    assert kept["fused", 64] == 2 * kept["fused", 32]
    assert kept["plain", 64] > 2.4 * kept["plain", 32]
