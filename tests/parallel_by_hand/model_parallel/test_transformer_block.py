"""The block is causal, and its halves hold what the whole holds."""

import torch

from parallel_by_hand.model_parallel.transformer_block import (
    block_cut_by_layer,
    make_transformer_block,
)
from sidebyside import run_ranks


def test_the_block_is_cut_into_its_halves():
    whole = run_ranks(block_cut_by_layer, world_size=1)[0]
    halves = run_ranks(block_cut_by_layer)
    assert [half.sent for half in halves] == [8 * 16 * 64 * 4] * 2
    assert sum(half.parameters for half in halves) == whole.parameters
    assert sum(half.activations for half in halves) == whole.activations  # no ReLU
    attention, mlp = (
        sum(p.nbytes for p in h.parameters()) for h in make_transformer_block()
    )
    assert [half.parameters for half in halves] == [attention, mlp]
    assert 0.6 < mlp / whole.parameters < 0.7


def test_the_block_looks_at_no_later_position():
    block, x = make_transformer_block(), torch.randn(1, 6, 64)
    changed = x.clone()
    changed[:, 4] += 1
    difference = (block(x) - block(changed)).abs().sum(-1)[0]
    assert (difference[:4] == 0).all() and (difference[4:] > 0).all()
