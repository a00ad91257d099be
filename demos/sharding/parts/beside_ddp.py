"""ZeRO-1 and ZeRO-2 beside lesson 11's DDP and the library's ZeRO-1, step by step."""

from collections.abc import Callable, Iterator

import torch
from torch import nn

from demos.ddp.ddp_from_scratch import DistributedDataParallel
from demos.sharding.parts.measured_ledger import adam, digits_loss, make_digits_network
from demos.sharding.parts.zero_1 import ZeRO1
from demos.sharding.parts.zero_2 import ZeRO2


def networks_trained_side_by_side(
    steps: int, make_optimizer: Callable = adam
) -> Iterator[dict[str, nn.Module]]:
    """Runs in each rank: after each step, networks that were trained in four ways.

    Each sees this rank's part of the same batches. `library` is torch's DDP with its
    ZeroRedundancyOptimizer; it can't be told apart from the others by its numbers.
    """
    from torch.distributed.optim import ZeroRedundancyOptimizer

    names = "DDP", "ZeRO-1", "ZeRO-2", "library"
    networks = {name: make_digits_network() for name in names}
    ours, theirs = networks["DDP"], networks["library"]
    replicas = (
        DistributedDataParallel(ours),
        nn.parallel.DistributedDataParallel(theirs),
    )
    zeros = (
        ZeRO1(networks["ZeRO-1"], make_optimizer),
        ZeRO2(networks["ZeRO-2"], make_optimizer),
    )
    kind, options = make_optimizer.func, make_optimizer.keywords
    optimizers = [
        make_optimizer(ours.parameters()),
        ZeroRedundancyOptimizer(theirs.parameters(), kind, **options),
    ]
    for step in range(steps):
        for replica, optimizer in zip(replicas, optimizers, strict=True):
            optimizer.zero_grad()
            digits_loss(replica, step).backward()
            optimizer.step()
        for name, zero in zip(names[1:3], zeros, strict=True):
            digits_loss(networks[name], step).backward()
            zero.step()
        with torch.no_grad():
            yield networks
