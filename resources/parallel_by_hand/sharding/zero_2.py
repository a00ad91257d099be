"""ZeRO-2 from scratch: a gradient is summed up at its owner as soon as it is ready.

Source: Rajbhandari et al., ZeRO, 2020, section 5.2.
"""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.sharding.clipping import clip_across_shards
from parallel_by_hand.sharding.flat_shards import (
    FlatParameters,
    master_copy,
    own_shard,
    parameters_by_layer,
    ring_all_gather,
    ring_reduce_scatter,
    room_for_chunk,
)
from sidebyside import span


class ZeRO2:
    """Parameters whole on every rank; gradients and optimiser's state in shards.

    As soon as a layer's gradients are ready they are packed into the one bucket, freed,
    and summed up over the ranks; each keeps its shard of the sum. `carry(bucket)` does
    the sum: at once, or, if it is replaced by one that returns a future, while backward
    goes on. After one or several backwards, `step()` updates and gathers parameters.
    """

    def __init__(self, module: nn.Module, make_optimizer: Callable, group=None):
        self.units = [FlatParameters(ps, group) for ps in parameters_by_layer(module)]
        self.gradients = [torch.zeros_like(unit.shard) for unit in self.units]
        self.masters = [master_copy(unit.shard) for unit in self.units]
        self.optimizer = make_optimizer(self.masters)
        largest = max(self.units, key=lambda unit: unit.numbers)
        self.buffers = [largest.zeros(), room_for_chunk(largest.flat, group)]
        self.carry: Callable = self.reduce_scatter
        self.under_way, self.group = None, group
        self.missing = [len(unit.parameters) for unit in self.units]
        for place, unit in enumerate(self.units):
            for p in unit.parameters:
                hook = partial(self._gradient_is_ready, place)
                p.register_post_accumulate_grad_hook(hook)

    def _gradient_is_ready(self, place: int, _) -> None:
        unit = self.units[place]
        self.missing[place] -= 1
        if self.missing[place] == 0:
            self.missing[place] = len(unit.parameters)
            self._keep_shard_under_way()  # then the bucket is free
            bucket = self.buffers[0][: unit.flat.numel()].zero_()
            for p, view in zip(unit.parameters, unit.views_of(bucket), strict=True):
                torch.div(p.grad, dist.get_world_size(self.group), out=view)
                p.grad = None
            self.under_way = place, bucket, self.carry(bucket)

    def reduce_scatter(self, bucket: torch.Tensor) -> None:
        with span("reduce-scatter"):
            ring_reduce_scatter(bucket, self.buffers[1], self.group)

    def _keep_shard_under_way(self) -> None:
        if self.under_way:
            place, bucket, future = self.under_way
            if future:
                with span("wait"):
                    future.result()
            self.gradients[place] += own_shard(bucket, self.group)
            self.under_way = None

    def step(self, longest: float | None = None) -> None:
        """Update all parameters on all ranks; clip the gradient to length `longest`."""
        self._keep_shard_under_way()
        if longest is not None:
            clip_across_shards(self.gradients, longest, self.group)
        with span("update"):
            for master, shard in zip(self.masters, self.gradients, strict=True):
                master.grad = shard.to(master.dtype)
            self.optimizer.step()
            for master, unit in zip(self.masters, self.units, strict=True):
                unit.shard.copy_(master.detach())  # rounds, if it has 16 bits
                master.grad = None
        with span("all-gather"):
            for unit in self.units:
                ring_all_gather(unit.flat, self.group)
        for shard in self.gradients:
            shard.zero_()
