"""The block is causal."""

import torch

from parallel_by_hand.model_parallel.transformer_block import (
    make_transformer_block,
)


def test_the_block_looks_at_no_later_position():
    block, x = make_transformer_block(), torch.randn(1, 6, 64)
    changed = x.clone()
    changed[:, 4] += 1
    difference = (block(x) - block(changed)).abs().sum(-1)[0]
    assert (difference[:4] == 0).all() and (difference[4:] > 0).all()
