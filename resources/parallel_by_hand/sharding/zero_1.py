"""ZeRO-1 from scratch: every rank updates its own shard of the parameters.

Source: Rajbhandari et al., ZeRO, 2020, section 5.1.
"""

from collections.abc import Callable

import torch.distributed as dist
from torch import nn

from parallel_by_hand.sharding.clipping import clip_across_shards
from parallel_by_hand.sharding.flat_shards import (
    FlatParameters,
    master_copy,
    ring_all_gather,
    ring_reduce_scatter,
    room_for_chunk,
)
from sidebyside import span


class ZeRO1:
    """Parameters and gradients whole on every rank, the optimiser's state in shards.

    After the `backward` of one or several micro-batches, `step()` sums up each shard of
    the gradient at its owner, who updates its shard of the parameters; then all gather
    all shards. `make_optimizer(parameters)` gets the one flat tensor that this rank
    updates. A rank sends 2 (N - 1) / N of the parameters, in the types that they have.
    """

    def __init__(self, module: nn.Module, make_optimizer: Callable, group=None):
        trained = [p for p in module.parameters() if p.requires_grad]
        flat, self.group = FlatParameters(trained, group), group
        self.units, self.gradients = [flat], [flat.zeros()]
        views = flat.views_of(self.gradients[0])
        for p, view in zip(flat.parameters, views, strict=True):
            p.grad = view  # backward adds to it
        self.masters = [master_copy(flat.shard)]
        self.optimizer = make_optimizer(self.masters)
        self.buffers = [room_for_chunk(flat.flat, group)]

    def step(self, longest: float | None = None) -> None:
        """Update all parameters on all ranks; clip the gradient to length `longest`."""
        [flat], [gradient], [master] = self.units, self.gradients, self.masters
        with span("reduce-scatter"):
            gradient.div_(dist.get_world_size(self.group))
            shard = ring_reduce_scatter(gradient, *self.buffers, group=self.group)
        if longest is not None:
            clip_across_shards([shard], longest, self.group)
        with span("update"):
            master.grad = shard.to(master.dtype)
            self.optimizer.step()
            flat.shard.copy_(master.detach())  # rounds, if parameters have 16 bits
            master.grad = None
        with span("all-gather"):
            ring_all_gather(flat.flat, self.group)
        gradient.zero_()
