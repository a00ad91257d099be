"""ZeRO-1 and ZeRO-2 beside lesson 11b's DDP and the library's ZeRO-1, step by step."""

from collections.abc import Iterator

import torch
from torch import nn

from parallel_by_hand.ddp.ddp_from_scratch import DistributedDataParallel
from parallel_by_hand.sharding.measured_ledger import (
    BUILT,
    adam,
    digits_loss_for_ledger,
    make_digits_network,
)


def networks_trained_side_by_side(steps: int) -> Iterator[dict[str, nn.Sequential]]:
    """Runs in each rank: ZeRO beside DDP: after each step, their networks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    names = "DDP", "ZeRO-1", "ZeRO-2", "library"
    networks = {name: make_digits_network() for name in names}
    ddp, library = networks["DDP"], networks["library"]
    theirs = library.parameters()
    sharded = ZeroRedundancyOptimizer(theirs, torch.optim.Adam, **adam.keywords)
    replicas = [
        (DistributedDataParallel(ddp), adam(ddp.parameters())),
        (nn.parallel.DistributedDataParallel(library), sharded),
    ]
    zeros = {name: BUILT[name](networks[name], adam) for name in names[1:3]}
    for step in range(steps):
        for replica, optimizer in replicas:
            optimizer.zero_grad()
            digits_loss_for_ledger(replica, step).backward()
            optimizer.step()
        for name, zero in zeros.items():
            digits_loss_for_ledger(networks[name], step).backward()
            zero.step()
        with torch.no_grad():
            yield networks
