"""The two functions of sequence parallel: the halves of an all-reduce, apart.

                       forward            backward
    gather_sequence    all-gather         reduce-scatter
    scatter_sum        reduce-scatter     all-gather

Tensors have the shape (batch, positions, width). A rank holds an equal part of the
positions. `group` is a process group, by default all ranks. Source: Korthikanti et al.,
Reducing Activation Recomputation in Large Transformer Models, 2022, where they are
called g and g-bar.
"""

import torch
import torch.distributed as dist
from torch.nn import functional as F


def own_positions(x: torch.Tensor, group=None) -> torch.Tensor:
    """Of the sequence, this rank's positions, a view; the ranks divide their number."""
    return x.chunk(dist.get_world_size(group), dim=1)[dist.get_rank(group)]


def all_gathered(part: torch.Tensor, group=None) -> torch.Tensor:
    """The whole sequence: all ranks' positions, in rank order."""
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, part.contiguous(), group=group)
    return torch.cat(parts, dim=1)


def reduce_scattered(summand: torch.Tensor, group=None) -> torch.Tensor:
    """The sum over the ranks, for this rank's part of the sequence only."""
    cut = summand.chunk(dist.get_world_size(group), dim=1)
    pieces = [piece.contiguous() for piece in cut]
    total = torch.empty_like(pieces[0])
    dist.reduce_scatter(total, pieces, group=group)
    return total


class GatherSequence(torch.autograd.Function):
    """A conjugate: every rank's positions, for the neurons of this rank.

    Each rank knows the gradient by way of its own neurons, for all positions. The sum
    over the ranks is needed only where the positions are: a reduce-scatter.
    """

    @staticmethod
    def forward(ctx, part: torch.Tensor, group=None) -> torch.Tensor:
        ctx.group = group
        return all_gathered(part, group)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        return reduce_scattered(gradient, ctx.group), None


class ScatterSum(torch.autograd.Function):
    """A conjugate of the sequence: the summands' sum, at each rank's own positions."""

    @staticmethod
    def forward(ctx, summand: torch.Tensor, group=None) -> torch.Tensor:
        ctx.group = group
        return reduce_scattered(summand, group)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        return all_gathered(gradient, ctx.group), None


class GatherAgainLinear(torch.autograd.Function):
    """A linear layer on a gathered sequence that keeps only this rank's part of it.

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


def gather_sequence(part: torch.Tensor, group=None) -> torch.Tensor:
    """The whole sequence forward; backward, the sum of the gradients of this rank's."""
    return GatherSequence.apply(part, group)


def scatter_sum(summand: torch.Tensor, group=None) -> torch.Tensor:
    """The sum at this rank's part of the sequence; backward, the gradients of all."""
    return ScatterSum.apply(summand, group)
