"""What the check of lesson 16d's third exercise runs in each rank."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.experts.beside_whole import groups_of_mesh, tokens_of_ranks
from parallel_by_hand.experts.expert_layer import (
    Limits,
    make_expert_layer,
    split_experts,
)
from sidebyside import device


class GradientNotes(NamedTuple):
    """One parameter of one rank: its gradient before, after, and as it should be."""

    name: str
    before: Tensor
    got: Tensor | None
    expected: Tensor
    is_kept: bool  # the parameter itself


def try_complete_gradients(complete: Callable, copies: int) -> list[GradientNotes]:
    """One backward of this rank's tokens, and of all ranks' in the whole layer."""
    group, replicas = groups_of_mesh(copies)
    whole = make_expert_layer().double().to(device())
    mine = split_experts(whole, group)
    whole.limits = Limits(per_rank=True)
    x = tokens_of_ranks(10, 16)
    own = x.view(dist.get_world_size(), 10, 16)[dist.get_rank()]
    whole(x).square().mean().backward()
    mine(own).square().mean().backward()
    before = [(p.detach().clone(), p.grad.clone()) for p in mine.parameters()]
    dist.barrier()
    complete(mine, replicas)
    for parameter in whole.parameters():  # gradients in place of parameters
        parameter.data = parameter.grad
    expected = split_experts(whole, group).parameters()
    named = zip(mine.named_parameters(), before, expected, strict=True)
    return [
        GradientNotes(
            name, gradient, p.grad, right.detach(), torch.equal(p.detach(), number)
        )
        for (name, p), (number, gradient), right in named
    ]
