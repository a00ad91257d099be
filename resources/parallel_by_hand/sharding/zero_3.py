"""ZeRO-3: a rank keeps 1/N of the parameters, and borrows the rest layer by layer.

Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models, 2020, section 5.3. The hooks are those of FSDP (Zhao et al., 2023).
"""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.sharding.clipping import clip_across_shards
from parallel_by_hand.sharding.flat_shards import FlatParameters, master_copy
from parallel_by_hand.sharding.shard_links import DirectLink


class ShardedUnit(FlatParameters):
    """ZeRO-3's parameters of `module`, of which each rank keeps one shard.

    `kept` is that shard. The parameters are views of `flat`. While nobody needs them,
    `flat` has no memory behind it; the tensor itself must stay, for autograd has kept
    views of it. All parameters of `module` must be trained, and each backward must give
    all of them a gradient.
    """

    def __init__(self, module: nn.Module, group=None):
        super().__init__(list(module.parameters()), group)
        self.module, self.kept = module, self.shard.clone()
        self.release()

    def allocate(self) -> None:
        """Give `flat` memory again; which numbers are in it is undefined."""
        self.flat.untyped_storage().resize_(self.flat.nbytes)

    def release(self) -> None:
        """Take the memory from `flat`: nobody may read it until it has some again."""
        self.flat.untyped_storage().resize_(0)

    def take_gradients(self) -> Tensor:
        """All gradients in a tensor such as `flat`; the parameters lose theirs."""
        gradients = self.zeros()
        for view, p in zip(self.views_of(gradients), self.parameters, strict=True):
            view.copy_(p.grad)
            p.grad = None
        return gradients


class ZeRO3:
    """Parameters, gradients and the optimiser's state in shards.

    Each child of `module` is a unit; they must run in their order, once per forward.
    Hooks gather a unit before its forward and before its backward, and free it after
    each. Once it has its gradients, each rank gets the mean of its own shard's.
    """

    def __init__(self, module, make_optimizer, link=None, group=None):
        children = [child for child in module.children() if list(child.parameters())]
        self.units = [ShardedUnit(child, group) for child in children]
        self.gradients = [torch.zeros_like(unit.kept) for unit in self.units]
        self.masters = [master_copy(unit.kept) for unit in self.units]
        self.optimizer = make_optimizer(self.masters)
        self.link, self.leaving, self.group = link or DirectLink(group), [], group
        for at, unit in enumerate(self.units):
            unit.module.register_forward_pre_hook(partial(self.before_forward, at))
            unit.module.register_forward_hook(partial(self.after_forward, at))
            call_after_gradients(unit.parameters, partial(self.after_backward, at))

    def before_forward(self, at: int, *_) -> None:
        self.gather(at)

    def after_forward(self, at: int, module, inputs, output: Tensor) -> None:
        self.free(at)
        self.expect_backward(at, output)

    def expect_backward(self, at: int, output: Tensor) -> None:
        if output.requires_grad:  # as soon as its gradient is there:
            output.register_hook(lambda gradient: self.before_backward(at))

    def before_backward(self, at: int) -> None:
        self.gather(at)

    def after_backward(self, at: int) -> None:
        self.free(at)
        self.start_reduce(at)

    def gather(self, at: int) -> None:
        unit = self.units[at]
        unit.allocate()
        self.link.gather(unit.flat, unit.kept).wait()

    def free(self, at: int) -> None:
        self.units[at].release()

    def start_reduce(self, at: int) -> None:
        whole = self.units[at].take_gradients().div_(dist.get_world_size(self.group))
        mine = torch.empty_like(self.gradients[at])
        self.leaving.append((at, mine, self.link.reduce(mine, whole)))

    def finish_gradients(self) -> None:
        """Wait for the shards that are still travelling, and add them up."""
        for at, mine, work in self.leaving:
            work.wait()
            self.gradients[at] += mine
        self.leaving.clear()

    def step(self, longest: float | None = None) -> None:
        """Update what this rank keeps; clip the gradient to length `longest`."""
        self.finish_gradients()
        if longest is not None:
            clip_across_shards(self.gradients, longest, self.group)
        for master, shard in zip(self.masters, self.gradients, strict=True):
            master.grad = shard.to(master.dtype)
        self.optimizer.step()
        for master, unit in zip(self.masters, self.units, strict=True):
            unit.kept.copy_(master.detach())  # rounds, if it has 16 bits
            master.grad = None
        for shard in self.gradients:
            shard.zero_()


class TunedZeRO3(ZeRO3):
    """ZeRO-3 that can gather ahead, gather less often, or send gradients less often.

    With `prefetch` the next unit travels while this one computes. With `keep_whole`
    units stay gathered until their backward; while `syncing` is false, gradients stay
    whole.
    """

    def __init__(
        self, module, make_optimizer, link=None, prefetch=False, keep_whole=False
    ):
        super().__init__(module, make_optimizer, link)
        self.prefetch, self.keep_whole, self.syncing = prefetch, keep_whole, True
        self.arriving = {}

    def before_forward(self, at: int, *_) -> None:
        self.gather(at, at + 1)

    def after_forward(self, at: int, module, inputs, output: Tensor) -> None:
        if not self.keep_whole:
            self.free(at)
        self.expect_backward(at, output)

    def before_backward(self, at: int) -> None:
        self.gather(at, at - 1)

    def after_backward(self, at: int) -> None:
        self.free(at)
        if self.syncing:
            self.start_reduce(at)

    def start_gather(self, at: int) -> None:
        unit = self.units[at]
        if at not in self.arriving:
            unit.allocate()
            self.arriving[at] = self.link.gather(unit.flat, unit.kept)

    def gather(self, at: int, next_one: int = -1) -> None:
        self.start_gather(at)
        self.arriving[at].wait()
        if self.prefetch and next_one in range(len(self.units)):
            self.start_gather(next_one)

    def free(self, at: int) -> None:
        super().free(at)
        del self.arriving[at]


def call_after_gradients(parameters: list[nn.Parameter], call) -> None:
    """`call()` whenever backward has given all of ZeRO-3's parameters a gradient."""
    missing = set(parameters)

    def one_is_there(parameter: nn.Parameter) -> None:
        missing.remove(parameter)
        if not missing:
            missing.update(parameters)
            call()

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(one_is_there)
