"""A vocabulary split by words, and the maximum that its loss needs."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.tensor_parallel import (
    vocabulary,
)
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.split_layers import own_part
from sidebyside import MessageMeter, run_ranks


def embedding_beside_whole() -> float:
    """Runs in each rank: gaps of the embedding and of its gradient."""
    torch.manual_seed(0)
    whole = nn.Embedding(17, 3).double()
    split = vocabulary.VocabularyEmbedding(whole)
    tokens = torch.randint(17, (4, 5))
    with MessageMeter() as meter:
        ours = split(tokens)
        ours.square().sum().backward()
    assert meter.collectives == ["all_reduce"]
    whole(tokens).square().sum().backward()
    gaps = ours - whole(tokens), split.table.grad - own_part(whole.weight.grad, 0)
    return torch.stack([gap.abs().max() for gap in gaps]).max().item()


@pytest.mark.parametrize("ranks", [3])
def test_a_split_embedding_is_the_whole_one_and_sends_once(ranks):
    assert max(run_ranks(embedding_beside_whole, world_size=ranks)) < 1e-12


def maximum_by_ours() -> tuple[torch.Tensor, torch.Tensor, int]:
    mine = torch.randn(6, generator=torch.Generator().manual_seed(dist.get_rank()))
    ours, theirs = mine.clone(), mine.clone()
    with messages_of_ours(), MessageMeter() as meter:
        dist.all_reduce(ours, op=dist.ReduceOp.MAX)
    dist.all_reduce(theirs, op=dist.ReduceOp.MAX)
    return ours, theirs, meter.bytes_sent


@pytest.mark.parametrize("ranks", [3])
def test_our_maximum_is_the_librarys_and_costs_what_a_sum_costs(ranks):
    for ours, theirs, sent in run_ranks(maximum_by_ours, world_size=ranks):
        assert torch.equal(ours, theirs)
        assert sent == 2 * (ranks - 1) / ranks * 6 * 4
