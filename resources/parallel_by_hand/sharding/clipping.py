"""Clip a gradient by its norm when every rank holds only a shard of it."""

import torch
import torch.distributed as dist
from torch import Tensor


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
