"""The two functions of tensor parallel: what one does forward, the other does backward.

                      forward       backward
    copy_to_ranks     identity      all-reduce
    sum_over_ranks    all-reduce    identity

Both take a tensor that autograd follows and return a new one. `group` is a process
group, by default all ranks. Source: Shoeybi et al., Megatron-LM, 2019, where they are
called f and g.
"""

import torch
import torch.distributed as dist


def all_reduced(tensor: torch.Tensor, group=None) -> torch.Tensor:
    """For conjugates: the sum over the ranks as a new tensor; `tensor` stays as is."""
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


class CopyToRanks(torch.autograd.Function):
    """A conjugate: what all ranks have goes into what each rank computes by itself.

    It has influenced the loss by N paths. Each rank's backward knows the gradient
    along its own path only, so the gradient of the tensor is the sum over the ranks.
    """

    @staticmethod
    def forward(ctx, x: torch.Tensor, group=None) -> torch.Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        return all_reduced(gradient, ctx.group), None


class SumOverRanks(torch.autograd.Function):
    """A conjugate: each rank's summand becomes the sum, the same on all ranks.

    The loss is computed from the sum on every rank alike, so each rank already has the
    gradient of the sum, and that is the gradient of each summand.
    """

    @staticmethod
    def forward(ctx, summand: torch.Tensor, group=None) -> torch.Tensor:
        return all_reduced(summand, group)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        return gradient, None


def copy_to_ranks(x: torch.Tensor, group=None) -> torch.Tensor:
    """The conjugate that is `x` forward; backward, the sum of all ranks' gradients."""
    return CopyToRanks.apply(x, group)


def sum_over_ranks(summand: torch.Tensor, group=None) -> torch.Tensor:
    """The conjugate that sums all ranks' tensors forward; backward, as it is."""
    return SumOverRanks.apply(summand, group)
