"""The two functions of sequence parallel: the halves of an all-reduce, apart.

                       forward            backward
    gather_sequence    all-gather         reduce-scatter
    scatter_sum        reduce-scatter     all-gather

Tensors have the shape (batch, positions, width). A rank holds an equal part of the
positions. Source: Korthikanti et al., Reducing Activation Recomputation in Large
Transformer Models, 2022, where they are called g and g-bar.
"""

import torch
import torch.distributed as dist
from torch.nn import functional as F


def own_positions(x: torch.Tensor) -> torch.Tensor:
    """This rank's part of the positions, a view; the number of ranks divides them."""
    return x.chunk(dist.get_world_size(), dim=1)[dist.get_rank()]


def all_gathered(part: torch.Tensor) -> torch.Tensor:
    """All ranks' positions, in rank order."""
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(summand: torch.Tensor) -> torch.Tensor:
    """The sum over the ranks, of this rank's positions only."""
    pieces = [piece.contiguous() for piece in summand.chunk(dist.get_world_size(), 1)]
    total = torch.empty_like(pieces[0])
    dist.reduce_scatter(total, pieces)
    return total


class GatherSequence(torch.autograd.Function):
    """Every rank's positions, for the neurons of this rank.

    Each rank knows the gradient by way of its own neurons, for all positions. The sum
    over the ranks is needed only where the positions are: a reduce-scatter.
    """

    @staticmethod
    def forward(ctx, part: torch.Tensor) -> torch.Tensor:
        return all_gathered(part)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return reduce_scattered(gradient)


class ScatterSum(torch.autograd.Function):
    """The sum of the ranks' summands, each rank with its own positions of it."""

    @staticmethod
    def forward(ctx, summand: torch.Tensor) -> torch.Tensor:
        return reduce_scattered(summand)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> torch.Tensor:
        return all_gathered(gradient)


class GatherAgainLinear(torch.autograd.Function):
    """A linear layer on gathered positions that keeps only this rank's part of them.

    The layer needs its whole input once more for the gradient of its weight. It is
    gathered again then: one more all-gather, and (N - 1) / N of the input is not kept.
    """

    @staticmethod
    def forward(ctx, part: torch.Tensor, weight: torch.Tensor, bias) -> torch.Tensor:
        ctx.save_for_backward(part, weight)
        ctx.has_bias = bias is not None
        return F.linear(all_gathered(part), weight, bias)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        part, weight = ctx.saved_tensors
        of_x = reduce_scattered(gradient @ weight)
        flat = gradient.flatten(0, 1)
        of_weight = flat.T @ all_gathered(part).flatten(0, 1)
        return of_x, of_weight, flat.sum(0) if ctx.has_bias else None


def gather_sequence(part: torch.Tensor) -> torch.Tensor:
    """All positions forward; backward, the sum of the gradients of this rank's."""
    return GatherSequence.apply(part)


def scatter_sum(summand: torch.Tensor) -> torch.Tensor:
    """The sum at this rank's positions forward; backward, the gradients of all."""
    return ScatterSum.apply(summand)
