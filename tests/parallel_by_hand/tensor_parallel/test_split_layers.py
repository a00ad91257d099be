"""Layers split by columns and by rows, and the pair made of them, beside torch."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.tensor_parallel.mlp import (
    MLPBlock,
    gap_to_whole,
    split_as_pair,
)
from parallel_by_hand.tensor_parallel.split_layers import ColumnParallel, RowParallel
from sidebyside import run_ranks


def gaps_of_single_layers() -> list[float]:
    """Runs in each rank: sizes that the number of ranks does not divide."""
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    split = nn.Sequential(ColumnParallel(whole[0]), nn.Tanh(), RowParallel(whole[2]))
    x = torch.randn(4, 5, dtype=torch.float64)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    for network, own in zip((whole, split), inputs, strict=True):
        network(own).square().sum().backward()
    gaps = [(inputs[0].grad - inputs[1].grad).abs().max().item()]
    return [*gaps, gap_to_whole(split, whole, of=lambda p: p.grad)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_uneven_parts_give_the_gradients_of_the_unsplit_layers(ranks):
    for gaps in run_ranks(gaps_of_single_layers, world_size=ranks):
        assert all(gap < 1e-12 for gap in gaps)


def train_on_a_mesh() -> float:
    """Runs in each of four ranks: tensor parallel in rows of the mesh, data across."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    tensor, data = mesh["tensor"].get_group(), mesh["data"].get_group()
    torch.manual_seed(0)
    whole = MLPBlock(8).double()
    split = split_as_pair(whole, tensor)
    x = torch.randn(6, 8, dtype=torch.float64)
    whole(x).square().mean().backward()
    split(x.chunk(2)[dist.get_rank(data)]).square().mean().backward()
    for parameter in split.parameters():
        dist.all_reduce(parameter.grad.div_(2), group=data)
    gaps = []
    for name, parameter in split.named_parameters():
        expected = dict(whole.named_parameters())[name].grad
        for dim, length in enumerate(parameter.shape):
            if expected.shape[dim] != length:
                expected = expected.chunk(2, dim)[dist.get_rank(tensor)]
        gaps.append((parameter.grad - expected).abs().max().item())
    return max(gaps)


def test_on_a_mesh_the_gradient_is_that_of_the_whole_block_and_batch():
    assert max(run_ranks(train_on_a_mesh, world_size=4)) < 1e-12
