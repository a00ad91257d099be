"""Clip a gradient by its norm when every rank holds only a shard of it."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh


def _global_norm(shards: list[Tensor], group=None) -> Tensor:
    """The length of the whole gradient, the same on all ranks.

    Squares of the parts add up to the square of the whole: one number travels.
    """
    total = torch.stack([shard.double().square().sum() for shard in shards]).sum()
    dist.all_reduce(total, group=group)
    return total.sqrt()


def clip_across_shards(shards: list[Tensor], longest: float, group=None) -> Tensor:
    """Shorten the whole gradient to `longest` if it is longer; its norm before.

    All ranks multiply by the same number, so the direction stays.
    """
    norm = _global_norm(shards, group)
    if norm > longest:
        for shard in shards:
            shard.mul_(longest / norm)
    return norm


def clip_over_meshes(parameters: Iterable[Any], longest: float) -> Tensor:
    """Clip the gradients of DTensors that lie on several meshes; the norm before.

    torch 2.13 stacks no tensors of different meshes: those of a norm that tensor
    parallel leaves as it is lie on data only, those of its matrices on both. So each
    mesh has a norm of its own, and squares add up.
    """
    groups: dict[DeviceMesh, list[Any]] = {}
    for parameter in parameters:
        groups.setdefault(parameter.device_mesh, []).append(parameter)
    for mesh in groups:
        if mesh.ndim > 1:
            mesh._flatten()  # so that a norm takes one all-reduce over all of it
    norms: list[Any] = [
        nn.utils.get_total_norm([p.grad for p in group]) for group in groups.values()
    ]
    norm = torch.stack([of_mesh.full_tensor() for of_mesh in norms]).norm()
    for group in groups.values():
        nn.utils.clip_grads_with_norm_(group, longest, norm)
    return norm
