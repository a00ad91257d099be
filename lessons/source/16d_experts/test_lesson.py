"""Lesson 16d: what no cell prints and no test in tests/parallel_by_hand says."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lessons.props.experts import draw_shares
from parallel_by_hand.experts.expert_layer import make_expert_layer, split_experts
from parallel_by_hand.experts.todays_block import BlockSize, todays_block_formula
from parallel_by_hand.tensor_parallel.activation_bytes import LayerSize, kept_by_layer
from sidebyside import run_ranks


def experts_under_ddp() -> bool:
    """Runs in each rank: are its experts still its own, once DDP has wrapped them?"""
    layer = split_experts(make_expert_layer(), dist.group.WORLD)
    before = layer.experts[0].gate.weight.detach().clone()
    DistributedDataParallel(layer)
    return torch.equal(before, layer.experts[0].gate.weight)


def test_ddp_copies_the_experts_of_rank_0_over_all_others():
    assert run_ranks(experts_under_ddp) == [True, False]


def test_34_was_32_without_dropout_and_is_41():
    size = LayerSize(64, 2, 64, 4)
    kept = run_ranks(kept_by_layer, "tensor", size, "none", "fused", world_size=1)[0]
    small = 8 + 4 * size.a  # two norms' statistics, a log-sum for each head
    assert kept / (64 * 2) == 32 * 64 + small
    assert todays_block_formula(BlockSize(4096, 32, 8, 14336)) == 41  # Llama 3 8B


def test_the_picture_of_shares_tells_them():
    alt = draw_shares({"loss": torch.tensor([0.25, 0.75])}).alt
    assert "loss: 25 %, 75 %" in alt
