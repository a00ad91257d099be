"""One step of several micro-batches under FSDP2, with each of its switches."""

# torch types say nothing of what `fully_shard` adds to a module.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false

from collections import Counter
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.sharding.sharding_meter import ShardingMeter
from parallel_by_hand.sharding.stack_to_shard import (
    make_stack,
    shard_in_order,
    stack_loss,
)


class SwitchesMeasured(NamedTuple):
    """One step: gathers of each unit, reduce-scatters of all, what was whole when."""

    gathers: Counter[str]
    scatters: int
    entries: list[
        tuple[str, int]
    ]  # an operation, bytes of gathered parameters after it


def backward_in_parts(
    model: nn.Sequential,
    step: int,
    parts: int,
    keep_after_backward: bool = False,
    sync_each: bool = False,
) -> None:
    """Backward of `parts` micro-batches; the last one sends, and frees the parameters.

    If they were still whole after it, the next forward would use them as they are:
    without what the optimiser has changed in the shards.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for part in range(parts):
        last = part == parts - 1
        model.set_reshard_after_backward(last or not keep_after_backward)
        model.set_requires_gradient_sync(last or sync_each)
        loss = stack_loss(model, step, part * ranks + rank, parts * ranks)
        (loss / parts).backward()


def count_gathers(
    keep_after_forward: bool = False,
    keep_after_backward: bool = False,
    sync_each: bool = False,
    parts: int = 4,
) -> SwitchesMeasured:
    """Runs in each rank: what one step sends, of the units "0", "1", "2" and the root.

    `keep_after_forward` is for the blocks; the root has what `fully_shard` gives it.
    """
    model = shard_in_order(make_stack())
    for block in model[:-1]:
        block.set_reshard_after_forward(not keep_after_forward)
    with ShardingMeter(model) as meter:
        backward_in_parts(model, 0, parts, keep_after_backward, sync_each)
    scatters = sum(call.name == "reduce_scatter" for call in meter.calls)
    return SwitchesMeasured(meter.gathers, scatters, meter.entries)


def losses_of_kept_parameters(free_at_last: bool, steps: int = 4) -> list[float]:
    """Runs in each rank: the loss of one batch, before each step of SGD on it.

    Both switches keep parameters whole. Unless the last micro-batch frees them, every
    forward uses those of the first: the optimiser updates shards that nobody gathers.
    """
    model = shard_in_order(make_stack())
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    model.set_reshard_after_forward(False)
    model.set_reshard_after_backward(free_at_last)
    losses = []
    for _ in range(steps):
        sgd.zero_grad()
        loss = stack_loss(model, 0, dist.get_rank(), dist.get_world_size())
        loss.backward()
        sgd.step()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        losses.append(mean.item())
    return losses
