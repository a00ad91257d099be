"""A sharded training that is saved in the background, and goes on with other ranks."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from parallel_by_hand.sharding.refused_checkpoints import load_or_refuse
from parallel_by_hand.sharding.stack_to_shard import (
    make_stack,
    shard_in_order,
    stack_loss,
)
from sidebyside import device


def make_two_dimensions(tensor: int) -> DeviceMesh:
    """A mesh of data × tensor over all ranks, so many of them in a tensor group."""
    sizes = dist.get_world_size() // tensor, tensor
    return init_device_mesh(device().type, sizes, mesh_dim_names=("data", "tensor"))


def states(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    parts = get_state_dict(model, optimizer)
    return dict(zip(("model", "optimizer"), parts, strict=True))


def train_and_save(
    folder: str, first: int, last: int, save_at: int | None = None, tensor: int = 1
) -> list[float]:
    """Runs in each rank: the loss of the whole batch at steps `first` to `last` - 1.

    Begins with the checkpoint in `folder` unless `first` is 0. Before step `save_at`
    the state is copied; it is written while the next steps are taken. The writing
    threads have a group of their own: in one group, their messages and those of the
    training would have no common order.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_state_dict

    mesh = make_two_dimensions(tensor)
    data, split = mesh["data"], mesh["tensor"] if tensor > 1 else None
    model = shard_in_order(make_stack(), data, split)
    adam = torch.optim.Adam(model.parameters(), foreach=False)
    losses: list[float] = []
    written: Any = None
    writers = dist.new_group(backend="gloo")
    if first:
        state = states(model, adam)
        load_or_refuse(folder, state)
        given = {f"{name}_state_dict": part for name, part in state.items()}
        given["optim_state_dict"] = given.pop("optimizer_state_dict")
        set_state_dict(model, adam, **given)
    for step in range(first, last):
        if step == save_at:
            where = {"checkpoint_id": folder, "process_group": writers}
            written = dcp.async_save(states(model, adam), **where)
        adam.zero_grad()
        loss = stack_loss(model, step, data.get_local_rank(), data.size())
        loss.backward()
        adam.step()
        mean = loss.detach() / data.size()
        dist.all_reduce(mean, group=data.get_group())
        losses.append(mean.item())
    if written:
        written.result()  # raises what went wrong in the background
    return losses
