"""The same training by FSDP2 and by our ZeRO-3, and what each of them calls."""

# `fully_shard` gives the module back, as torch types do not say.
# pyright: reportReturnType=false, reportAttributeAccessIssue=false

import torch
import torch.distributed as dist
from torch import nn

from parallel_by_hand.sharding.zero_3 import ZeRO3
from sidebyside import MessageMeter, device


def make_wide_stack(width: int = 64, depth: int = 3) -> nn.Sequential:
    """For FSDP2 beside ours: `depth` units of two layers, the same in every process."""
    torch.manual_seed(0)
    units = [
        nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        for _ in range(depth)
    ]
    return nn.Sequential(*units).to(device())


def shard_by_torch(model: nn.Sequential, mesh=None) -> nn.Sequential:
    """FSDP2: each unit is sharded, then whatever is left in the root."""
    from torch.distributed.fsdp import fully_shard

    for unit in model:
        fully_shard(unit, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train_beside_fsdp2(steps: int = 3, width: int = 64) -> dict:
    """Runs in each rank: losses of both, and the collectives of the last step."""
    ours, theirs = make_wide_stack(width), shard_by_torch(make_wide_stack(width))
    steppers = {
        "ours": (ours, ZeRO3(ours, sgd_beside_fsdp2)),
        "FSDP2": (theirs, sgd_beside_fsdp2(theirs.parameters())),
    }
    found = {}
    for name, (network, stepper) in steppers.items():
        generator, losses = torch.Generator().manual_seed(dist.get_rank()), []
        for _ in range(steps):
            x = torch.randn(16, width, generator=generator).to(device())
            network.zero_grad()
            with MessageMeter() as meter:
                loss = (network(x) - x).square().mean()
                loss.backward()
                stepper.step()
            losses.append(loss.item())
        found[name] = losses, count_fsdp2_names(meter.collectives)
    return found


def sgd_beside_fsdp2(parameters) -> torch.optim.Optimizer:
    """What trains in both, FSDP2 and ours."""
    return torch.optim.SGD(parameters, lr=0.1)


def count_fsdp2_names(names: list[str]) -> dict[str, int]:
    """How often each collective was called, by FSDP2 or ours."""
    return {name: names.count(name) for name in sorted(set(names))}


def count_hybrid_collectives(width: int = 16) -> tuple[dict[str, int], float]:
    """Runs in each of four ranks: shards within pairs, replicas across them."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(device().type, (2, 2), mesh_dim_names=("replica", "shard"))
    model = shard_by_torch(make_wide_stack(width), mesh)
    with MessageMeter() as meter:
        model(torch.ones(4, width, device=device())).sum().backward()
    kept = sum(p.to_local().nbytes for p in model.parameters())
    return count_fsdp2_names(meter.collectives), kept / sum(
        p.nbytes for p in model.parameters()
    )
