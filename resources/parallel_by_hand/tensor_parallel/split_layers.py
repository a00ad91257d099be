"""Linear layers of which each rank holds a part: by columns, by rows, and gathered.

`nn.Linear` stores the transpose of the matrix A in y = x A + b. So a column of A, one
neuron, is a row of `weight`.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel.conjugates import copy_to_ranks, sum_over_ranks


def own_part(tensor: torch.Tensor, dim: int, group=None) -> torch.Tensor:
    """For split layers: a copy of this rank's part of `tensor`, cut along `dim`."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    return tensor.detach().tensor_split(ranks, dim)[rank].clone()


class ColumnParallel(nn.Module):
    """This rank's neurons of a layer: takes the whole input, gives its own outputs."""

    def __init__(self, layer: nn.Linear, group=None):
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(own_part(layer.weight, 0, group))
        self.bias = nn.Parameter(own_part(layer.bias, 0, group))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(copy_to_ranks(x, self.group), self.weight, self.bias)


class RowParallel(nn.Module):
    """This rank's inputs of a layer: takes its part of them, gives the whole output.

    The bias is whole on every rank, and is added once, to the sum.
    """

    def __init__(self, layer: nn.Linear, group=None):
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(own_part(layer.weight, 1, group))
        self.bias = nn.Parameter(layer.bias.detach().clone())

    def forward(self, x_part: torch.Tensor) -> torch.Tensor:
        summand = F.linear(x_part, self.weight)
        return sum_over_ranks(summand, self.group) + self.bias


class GatherColumns(torch.autograd.Function):
    """Every rank's outputs side by side; backward, this rank's part of the gradient."""

    @staticmethod
    def forward(ctx, part: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts, dim=-1)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.chunk(dist.get_world_size(), dim=-1)[dist.get_rank()]


class GatheredColumns(ColumnParallel):
    """The naive way: each rank computes its neurons, then all get the whole output."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return GatherColumns.apply(super().forward(x))
