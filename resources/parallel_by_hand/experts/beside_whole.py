"""Experts on several ranks, compared with the whole layer on one."""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false, reportOptionalOperand=false
# pyright: reportOptionalSubscript=false, reportAttributeAccessIssue=false

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from parallel_by_hand.experts.expert_layer import (
    ExpertLayer,
    Limits,
    complete_gradients,
    is_expert,
    make_expert_layer,
    split_experts,
)
from parallel_by_hand.experts.todays_block import largest_gap
from sidebyside import device

NO_LIMIT = Limits()


def groups_of_mesh(copies: int) -> tuple:
    """This rank's two process groups: of the ranks that share one set of experts, and
    of the ranks that have the same experts, one in each of the `copies` of the set.

    With 4 ranks and 2 copies: 0 and 1, 2 and 3 share a set; 0 and 2, 1 and 3 have the
    same experts.
    """
    shape = copies, dist.get_world_size() // copies
    mesh = init_device_mesh(device().type, shape, mesh_dim_names=("copy", "expert"))
    return mesh.get_group("expert"), mesh.get_group("copy")


def tokens_of_ranks(each: int, width: int) -> Tensor:
    """All ranks' tokens in rank order, in 64 bits; the same on all ranks."""
    generator = torch.Generator().manual_seed(1)
    shape = each * dist.get_world_size(), width
    return torch.randn(shape, generator=generator, dtype=torch.double).to(device())


def loss_of_layer(
    layer: ExpertLayer, x: Tensor, weight: float
) -> tuple[Tensor, Tensor]:
    """The outputs, and the mean of their squares plus the weighted balancing loss."""
    y = layer(x)
    return y, y.square().mean() + weight * layer.balance


def compare_with_whole(
    copies: int = 1,
    limits: Limits = NO_LIMIT,
    weight: float = 0.0,
    complete: Callable = complete_gradients,
    each: int = 24,
) -> dict:
    """Runs in each rank: one step, beside the whole layer that has all ranks' tokens.

    Each rank has `each` tokens. `complete(layer, replicas)` completes the gradients.
    How many of this rank's tokens have another output, and the largest gaps of the
    gradients of x, of the shared parameters, and of this rank's experts.
    """
    group, replicas = groups_of_mesh(copies)
    whole = make_expert_layer().double().to(device())
    mine = split_experts(whole, group)
    whole.limits, mine.limits = Limits(limits.factor, per_rank=True), limits
    rank = dist.get_rank()
    own = slice(rank * each, (rank + 1) * each)
    x = tokens_of_ranks(each, 16).requires_grad_()
    x_own = x.detach()[own].requires_grad_()
    expected, loss = loss_of_layer(whole, x, weight)
    loss.backward()
    got, loss = loss_of_layer(mine, x_own, weight)
    loss.backward()
    complete(mine, replicas)
    gaps = _gaps_of_gradients(mine, split_experts(_gradients(whole), group))
    away = (got - expected[own]).abs().amax(1) > 1e-10
    return {
        "other outputs": int(away.sum()),
        "gradient of x": largest_gap(x_own.grad / dist.get_world_size(), x.grad[own]),
        **gaps,
    }


def _gradients(layer: ExpertLayer) -> ExpertLayer:
    """The layer with its gradients in place of its parameters."""
    for parameter in layer.parameters():
        parameter.data = parameter.grad
    return layer


def _gaps_of_gradients(mine: nn.Module, expected: nn.Module) -> dict[str, float]:
    gaps = {"shared": 0.0, "experts": 0.0}
    pairs = zip(mine.named_parameters(), expected.parameters(), strict=True)
    for (name, parameter), gradient in pairs:
        kind = "experts" if is_expert(name) else "shared"
        gaps[kind] = max(gaps[kind], largest_gap(parameter.grad, gradient))
    return gaps


def sum_over_everyone(layer: nn.Module, replicas) -> None:
    """The planted bug: average as DDP does, though ranks have different experts."""
    for parameter in layer.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(dist.get_world_size())
