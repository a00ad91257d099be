"""Digits trained with ZeRO-1, 2 and 3 of our own."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.sharding.gathered_ledger import GatheredLedger
from parallel_by_hand.sharding.ledger import bytes_behind, optimizer_tensors
from parallel_by_hand.sharding.measured_ledger import (
    make_digits_network,
    own_rows_of_digits,
)
from parallel_by_hand.sharding.replicated_state import ReplicatedState
from parallel_by_hand.sharding.shard_links import RingLink
from parallel_by_hand.sharding.zero_1 import ZeRO1
from parallel_by_hand.sharding.zero_2 import ZeRO2
from parallel_by_hand.sharding.zero_3 import TunedZeRO3, ZeRO3
from sidebyside import MessageMeter, device

WAYS = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "ZeRO-3, whole till backward")


def _make_learner() -> nn.Sequential:
    """The network on digits, with larger first weights: it learns in a few steps."""
    network = make_digits_network()
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    return network


def make_trained(way: str, make_optimizer, **options) -> tuple[nn.Sequential, Any]:
    """A network and what trains it, ZeRO or DDP; all four send by lesson 10b's ring."""
    network = _make_learner()
    if way.startswith("ZeRO-3"):
        keep = way != "ZeRO-3"
        link = RingLink()
        trained = TunedZeRO3(network, make_optimizer, link, keep_whole=keep, **options)
    else:
        kinds = {"DDP": ReplicatedState, "ZeRO-1": ZeRO1, "ZeRO-2": ZeRO2}
        trained = kinds[way](network, make_optimizer)
    return network, trained


def whole_parameters(trained) -> torch.Tensor:
    """ZeRO's parameters in one vector; every rank must ask, for ZeRO-3 gathers them."""
    if not isinstance(trained, ZeRO3):
        return torch.cat([unit.flat[: unit.numbers] for unit in trained.units])
    found = []
    for at, unit in enumerate(trained.units):
        trained.gather(at)
        found.append(unit.flat[: unit.numbers].clone())
        trained.free(at)
    return torch.cat(found)


def train_in_stage(
    way: str, steps: int = 3, accumulate: int = 1, hold_back: bool = False
) -> dict:
    """Runs in each rank: a stage of ZeRO: losses, parameters, the last step's bill."""
    sgd = torch.optim.SGD
    network, trained = make_trained(way, lambda p: sgd(p, lr=0.1, momentum=0.9))
    units = trained.units if way.startswith("ZeRO-3") else []
    losses, parameters = [], []
    for step in range(steps):
        total = torch.zeros((), device=device())
        with MessageMeter() as meter, GatheredLedger(units) as gathered:
            for micro in range(accumulate):
                trained.syncing = not hold_back or micro == accumulate - 1
                loss = (
                    F.cross_entropy(*digits_scores(network, step, micro)) / accumulate
                )
                loss.backward()
                total += loss.detach() / dist.get_world_size()
            trained.step()
        dist.all_reduce(total)
        losses.append(total.item())
        parameters.append(whole_parameters(trained))
    kept = [u.kept if units else u.flat for u in trained.units]
    return {
        "losses": losses,
        "parameters": parameters,
        "sent": meter.bytes_sent,
        "kept": bytes_behind(kept),
        "gathered": gathered.peak,
        "gradients": bytes_behind(trained.gradients),
        "optimiser": bytes_behind(optimizer_tensors(trained.optimizer)),
    }


def digits_scores(network, step: int, micro: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What ZeRO trains: this rank's scores and labels, in a micro-batch of a step."""
    images, labels = own_rows_of_digits(4 * step + micro, batch=48)
    return network(images), labels
