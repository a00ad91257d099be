"""Save a sharded training from some ranks, and go on with others.

Run:      python demos/sharding/checkpoint_resharding.py
Look for: four ranks train and write a checkpoint, a file each. Two ranks read it, cut
          everything anew, and go on: their losses are those of a training that nobody
          interrupted, up to rounding.
Try:      --damage torn, a file that ends too early, or --damage foreign, a checkpoint
          of another model: both are refused in one sentence. --readers 3 also works.
"""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from demos.sharding.parts.fsdp_beside_ours import make_wide_stack, shard_by_torch
from demos.sharding.parts.refused_checkpoints import load_or_refuse
from sidebyside import RankFailed, at_least, device, run_ranks
from sidebyside.programs import run_program

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
        losses.append(take_sharded_step(model, adam, step, width))
    return losses


def take_sharded_step(model, optimizer, step: int, width: int) -> float:
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--writers", type=at_least(1, 8), default=4)
    parser.add_argument("--readers", type=at_least(1, 8), default=2)
    parser.add_argument("--damage", choices=["none", "torn", "foreign"], default="none")
    args = parser.parse_args()
    if 24 % args.writers or 24 % args.readers:
        parser.error("--writers and --readers must divide the batch of 24")
    with tempfile.TemporaryDirectory() as folder:
        width = WIDTH * (1 + (args.damage == "foreign"))
        wrote = folder, 0, 6, 3, width
        whole = run_ranks(train_sharded, *wrote, world_size=args.writers)[0]
        for path in sorted(Path(folder).iterdir()):
            print(f"{path.name:<14} {path.stat().st_size:9,} bytes")
        if args.damage == "torn":
            damage_checkpoint(folder)
        try:
            read = folder, 3, 6
            losses = run_ranks(train_sharded, *read, world_size=args.readers)[0]
        except RankFailed as failure:
            return print("refused:", str(failure).splitlines()[0])
    print("step  not interrupted   went on")
    for step, (alone, after) in enumerate(zip(whole[3:], losses, strict=True), 4):
        print(f"{step:4} {alone:16.6f} {after:9.6f}")


if __name__ == "__main__":
    run_program(main)
