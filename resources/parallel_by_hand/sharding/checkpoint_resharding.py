"""A sharded training that is saved by some ranks, and goes on with others."""

from pathlib import Path

import torch
import torch.distributed as dist

from parallel_by_hand.sharding.fsdp_beside_ours import make_wide_stack, shard_by_torch
from parallel_by_hand.sharding.refused_checkpoints import load_or_refuse
from sidebyside import device

WIDTH = 16
STATE = "model", "optimizer"  # the names of the two parts of a checkpoint


def train_sharded(
    folder: str, first: int, last: int, save_at: int | None = None, width=WIDTH
) -> list[float]:
    """Runs in each rank: train with FSDP2 from step `first` up to `last`.

    Begins with the checkpoint in `folder` unless `first` is 0, and writes one before
    step `save_at`. All ranks together see the same 24 samples at a step, however many
    they are. The losses of the whole batch.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model = shard_by_torch(make_wide_stack(width))
    adam, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    if first:
        parts = get_state_dict(model, adam)
        load_or_refuse(folder, dict(zip(STATE, parts, strict=True)))
        given = {"model_state_dict": parts[0], "optim_state_dict": parts[1]}
        set_state_dict(model, adam, **given)
    for step in range(first, last):
        if step == save_at:
            parts = get_state_dict(model, adam)
            dcp.save(dict(zip(STATE, parts, strict=True)), checkpoint_id=folder)
        losses.append(_take_sharded_step(model, adam, step, width))
    return losses


def _take_sharded_step(model, optimizer, step: int, width: int) -> float:
    generator = torch.Generator().manual_seed(step)
    batch = torch.randn(24, width, generator=generator).to(device())
    x = batch.chunk(dist.get_world_size())[dist.get_rank()]
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    mean = loss.detach() / dist.get_world_size()
    dist.all_reduce(mean)
    return mean.item()


def damage_checkpoint(folder: str) -> None:
    """Cut the last rank's file in half, as when a disk was full."""
    last = max(Path(folder).glob("*.distcp"))
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
