"""ZeRO-3: a rank keeps 1/N of the parameters, and borrows the rest layer by layer.

Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models, 2020, section 5.3. The hooks are those of FSDP (Zhao et al., 2023).
"""

from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from demos.sharding.parts.shard_links import DirectLink


class ShardedUnit:
    """The parameters of `module`, in one flat tensor, of which each rank keeps 1/N.

    `shard` is what this rank keeps, and what its optimiser updates. The parameters are
    views of `whole`. When nobody needs them, `whole` has no memory behind it: autograd
    has kept views of it, so the tensor itself must stay. `module` holds parameters of
    one dtype, all of them trained and used in each step.
    """

    def __init__(self, module: nn.Module):
        self.module, self.parameters = module, list(module.parameters())
        flat = torch.cat([p.detach().flatten() for p in self.parameters])
        self.whole = F.pad(flat, (0, -len(flat) % dist.get_world_size()))
        pieces = self.whole[: len(flat)].split([p.numel() for p in self.parameters])
        for parameter, piece in zip(self.parameters, pieces, strict=True):
            parameter.data = piece.view_as(parameter)
        self.shard = nn.Parameter(self.shards_of(self.whole)[dist.get_rank()].clone())
        self.release()

    def shards_of(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """One equal part for each rank; views, not copies."""
        return list(flat.chunk(dist.get_world_size()))

    def allocate(self) -> None:
        """Give `whole` memory again; its numbers are still undefined."""
        self.whole.untyped_storage().resize_(self.whole.nbytes)

    def release(self) -> None:
        """Take the memory from `whole`: until it has some again, nobody may read it."""
        self.whole.untyped_storage().resize_(0)

    def take_gradients(self) -> torch.Tensor:
        """All gradients, flat and padded like `whole`; the parameters lose theirs."""
        flat = torch.cat([p.grad.flatten() for p in self.parameters])
        for parameter in self.parameters:
            parameter.grad = None
        return F.pad(flat, (0, len(self.whole) - len(flat)))


class Zero3:
    """Shards `modules`, which run in this order, and gathers each only while it works.

    Hooks gather a unit before its forward and before its backward, and free it after
    each. Once it has its gradients, each rank gets the mean of its own shard's. With
    `prefetch` the next unit travels while this one computes. `keep_whole` frees no
    parameters after forward; while `syncing` is false, gradients stay where they are.
    """

    def __init__(self, modules, link=None, prefetch=False, keep_whole=False):
        self.units = [ShardedUnit(module) for module in modules]
        self.link, self.prefetch = link or DirectLink(), prefetch
        self.arriving, self.leaving, self.syncing = {}, [], True
        self.keep_whole = keep_whole
        for at, unit in enumerate(self.units):
            unit.module.register_forward_pre_hook(partial(self.before_forward, at))
            unit.module.register_forward_hook(partial(self.after_forward, at))
            call_after_gradients(unit.parameters, partial(self.after_backward, at))

    def before_forward(self, at: int, *_) -> None:
        self.gather(at, at + 1)

    def after_forward(self, at: int, module, inputs, output: torch.Tensor) -> None:
        if not self.keep_whole:
            self.free(at)
        if output.requires_grad:  # its gradient is there: backward comes to this unit
            output.register_hook(lambda gradient: self.gather(at, at - 1))

    def after_backward(self, at: int) -> None:
        self.free(at)
        if self.syncing:
            self.start_reduce(self.units[at])
        if at == 0:  # the first unit's backward is the last
            self.finish()

    def parameters(self) -> list[nn.Parameter]:
        """What this rank's optimiser updates."""
        return [unit.shard for unit in self.units]

    def start_gather(self, at: int) -> None:
        unit = self.units[at]
        if at not in self.arriving:
            unit.allocate()
            pieces = unit.shards_of(unit.whole)
            self.arriving[at] = self.link.all_gather(pieces, unit.shard.detach())

    def gather(self, at: int, next_one: int) -> None:
        self.start_gather(at)
        self.arriving[at].wait()
        if self.prefetch and next_one in range(len(self.units)):
            self.start_gather(next_one)

    def free(self, at: int) -> None:
        self.units[at].release()
        del self.arriving[at]

    def start_reduce(self, unit: ShardedUnit) -> None:
        mine, gradients = torch.empty_like(unit.shard.detach()), unit.take_gradients()
        work = self.link.reduce_scatter(mine, unit.shards_of(gradients))
        self.leaving.append((unit.shard, mine, work))

    def finish(self) -> None:
        for shard, mine, work in self.leaving:
            work.wait()
            mine /= dist.get_world_size()
            shard.grad = mine if shard.grad is None else shard.grad + mine
        self.leaving.clear()


def call_after_gradients(parameters: list[nn.Parameter], call) -> None:
    """`call()` whenever a backward has given each of the parameters its gradient."""
    missing = set(parameters)

    def one_is_there(parameter: nn.Parameter) -> None:
        missing.remove(parameter)
        if not missing:
            missing.update(parameters)
            call()

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(one_is_there)
