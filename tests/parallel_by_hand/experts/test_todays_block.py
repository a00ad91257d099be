"""The block of today, split over ranks, is the unsplit one, and keeps what we say."""

import pytest
import torch

from parallel_by_hand.experts.todays_block import (
    BlockSize,
    compare_split_todays_block,
    kept_by_todays_block,
    todays_block_formula,
)
from sidebyside import run_ranks
from sidebyside.ranks.failures import RankFailed


@pytest.mark.parametrize("ranks", [2, 4, 8])  # 2 key and value heads
def test_the_split_block_equals_the_unsplit_one(ranks):
    for gaps in run_ranks(compare_split_todays_block, world_size=ranks):
        assert max(gaps.values()) < 1e-12


def test_heads_that_ranks_cannot_share_evenly_are_refused():
    with pytest.raises(RankFailed, match="2 key and value heads are not shared"):
        run_ranks(compare_split_todays_block, world_size=3)


@pytest.mark.parametrize(
    "size", [BlockSize(), BlockSize(64, 8, 8, 256), BlockSize(32, 4, 1, 64)]
)
def test_the_block_keeps_what_the_formula_says_and_what_cpu_norms_add(size):
    """A norm on the CPU keeps x and its normed copy in 32 bits, not x in 16: 6 sbh."""
    positions, batch = 64, 2
    kept = kept_by_todays_block(size, positions, batch) / (positions * batch)
    small = 2 * 4 + 4 * size.heads  # two spreads, a log-sum for each head
    assert kept == size.width * (todays_block_formula(size) + 2 * 6) + small


def test_a_query_head_uses_the_key_of_its_group():
    from parallel_by_hand.experts.todays_block import make_todays_block

    attention = make_todays_block(BlockSize(16, 4, 2, 16))[0]
    x = torch.randn(1, 5, 16)
    with torch.no_grad():
        attention.out.weight.copy_(torch.eye(16))
        before = attention(x)
        attention.value.weight[:4] += 1  # of the first of two
        changed = (attention(x) != before).any(1)[0]
    assert changed.tolist() == [True] * 8 + [False] * 8
