"""ZeRO-1 and ZeRO-2 beside lesson 11b's DDP and the library's ZeRO-1, step by step."""

from collections.abc import Callable, Iterator

import torch
from torch import nn

from parallel_by_hand.ddp.ddp_from_scratch import DistributedDataParallel
from parallel_by_hand.sharding.measured_ledger import (
    BUILT,
    adam,
    digits_loss_for_ledger,
    make_digits_network,
)

BUILT_HERE = "ZeRO-1", "ZeRO-2"


def networks_trained_side_by_side(
    steps: int, make_optimizer: Callable = adam, library: bool = True
) -> Iterator[dict[str, nn.Sequential]]:
    """Runs in each rank: ZeRO beside DDP: after each step, their networks."""
    replicas: dict[str, tuple] = {}
    networks = {name: make_digits_network() for name in ("DDP", "ZeRO-1", "ZeRO-2")}
    replica = DistributedDataParallel(networks["DDP"])
    replicas["DDP"] = replica, make_optimizer(networks["DDP"].parameters())
    zeros = {name: BUILT[name](networks[name], make_optimizer) for name in BUILT_HERE}
    if library:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        network = networks["library"] = make_digits_network()
        kind, options = make_optimizer.func, make_optimizer.keywords
        sharded = ZeroRedundancyOptimizer(network.parameters(), kind, **options)
        replicas["library"] = nn.parallel.DistributedDataParallel(network), sharded
    for step in range(steps):
        for replica, optimizer in replicas.values():
            optimizer.zero_grad()
            digits_loss_for_ledger(replica, step).backward()
            optimizer.step()
        for name, zero in zeros.items():
            digits_loss_for_ledger(networks[name], step).backward()
            zero.step()
        with torch.no_grad():
            yield networks
