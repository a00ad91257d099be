"""Data parallel training as in lesson 11a, with flat tensors: nothing is sharded."""

from collections.abc import Callable

import torch.distributed as dist
from torch import nn

from parallel_by_hand.sharding.flat_shards import (
    FlatParameters,
    master_copy,
    ring_all_gather,
    ring_reduce_scatter,
    room_for_chunk,
)


class ReplicatedState:
    """Parameters, gradients and optimiser whole on every rank: DDP's training state.

    `step()` averages the gradients over the ranks by an all-reduce, in the two halves
    of the ring, and updates everything.
    """

    def __init__(self, module: nn.Module, make_optimizer: Callable, group=None):
        trained = [p for p in module.parameters() if p.requires_grad]
        flat, self.group = FlatParameters(trained, group), group
        self.units, self.gradients = [flat], [flat.zeros()]
        for p, view in zip(
            flat.parameters, flat.views_of(self.gradients[0]), strict=True
        ):
            p.grad = view  # backward adds to it
        self.masters = [master_copy(flat.flat)]
        self.optimizer = make_optimizer(self.masters)
        self.buffers = [room_for_chunk(flat.flat, group)]

    def step(self, longest: float | None = None) -> None:
        [flat], [gradient], [master] = self.units, self.gradients, self.masters
        gradient.div_(dist.get_world_size(self.group))
        ring_reduce_scatter(gradient, *self.buffers, group=self.group)
        ring_all_gather(gradient, self.group)
        if longest is not None:
            norm = gradient.double().norm()
            gradient.mul_(min(longest / norm, 1))
        master.grad = gradient.to(master.dtype)
        self.optimizer.step()
        flat.flat.copy_(master.detach())  # rounds, if parameters have 16 bits
        master.grad = None
        gradient.zero_()
