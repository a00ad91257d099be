"""The attention of a split block, and the functions between its pairs."""

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel import (
    split_block,
)
from parallel_by_hand.tensor_parallel.sequence_conjugates import (
    gather_sequence,
    own_positions,
    scatter_sum,
)
from sidebyside import run_ranks


def test_causal_attention_is_the_librarys():
    query, key, value = torch.randn(3, 2, 3, 5, 4, dtype=torch.float64)
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    ours = split_block.causal_attention(query, key, value)
    torch.testing.assert_close(ours, expected)


def gradients_of_conjugates() -> list[torch.Tensor]:
    """Runs in each rank: what comes back through each function, and what should."""
    x = torch.randn(1, 6, 2, generator=torch.Generator().manual_seed(0))
    part = own_positions(x).clone().requires_grad_()
    weight = 1.0 + dist.get_rank()
    (gather_sequence(part) * x * weight).sum().backward()
    total = sum(range(1, dist.get_world_size() + 1))
    summand = x.clone().requires_grad_()
    (scatter_sum(summand) * own_positions(x)).sum().backward()
    return [part.grad, own_positions(x) * total, summand.grad, x]


@pytest.mark.parametrize("ranks", [1, 3])
def test_gathering_and_scattering_go_back_through_each_other(ranks):
    for got, expected, gradient, x in run_ranks(
        gradients_of_conjugates, world_size=ranks
    ):
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(gradient, x)
