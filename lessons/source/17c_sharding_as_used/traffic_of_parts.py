"""What the check of exercise 17c-switches runs in each rank, and what it notes."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.sharding.sharding_meter import ShardingMeter
from parallel_by_hand.sharding.stack_to_shard import (
    make_stack,
    shard_in_order,
    stack_loss,
)
from sidebyside import device

RATE = 0.1


class TrafficCase(NamedTuple):
    parts: int
    gathers: int
    scatters: int


class TrafficNotes(NamedTuple):
    """What one rank saw in a step, beside one process with all images."""

    order: list[str]  # of the forwards and backwards
    gathers: list[int]  # of each block
    scatters: float  # for each unit
    gap: float  # of this rank's gradients; infinite if one is missing
    factor: float  # the gradients as a multiple of the right ones
    late: bool  # does the second step begin with the loss of the first?


def try_traffic(answer: Callable, cases: list[TrafficCase]) -> list[TrafficNotes]:
    return [_try_case(answer, *case) for case in cases]


def _try_case(
    answer: Callable, parts: int, gathers: int, scatters: int
) -> TrafficNotes:
    rank, ranks, order = dist.get_rank(), dist.get_world_size(), []
    model, whole = shard_in_order(make_stack(2)), make_stack(2).to(device())

    def loss_of(part: int) -> Tensor:
        order.append(f"forward {part}")
        loss = stack_loss(model, 0, part * ranks + rank, parts * ranks) / parts
        loss.register_hook(lambda gradient: order.append(f"backward {part}"))
        return loss

    shards = list(model.parameters())  # what an optimiser has, whatever is whole later
    losses = [partial(loss_of, part) for part in range(parts)]
    with ShardingMeter(model) as meter:
        answer(model, losses, gathers, scatters)
    before = stack_loss(whole, 0, 0, 1)
    before.backward()
    mine, right = _gradients_of_shards(shards, whole)
    factor = (mine @ right / (right @ right)).item()
    found = TrafficNotes(
        list(order),
        [meter.gathers[name] for name in ("0", "1")],
        sum(call.name == "reduce_scatter" for call in meter.calls) / 3,
        (mine - right).abs().max().item(),
        factor,
        late=False,
    )
    torch.optim.SGD(shards, lr=RATE).step()
    mean = stack_loss(model, 0, rank, ranks).detach() / ranks
    dist.all_reduce(mean)
    return found._replace(late=abs(mean - before).item() < 1e-4)


def _gradients_of_shards(shards: list, whole) -> tuple[Tensor, Tensor]:
    """This rank's rows of all gradients, and the same rows of the whole model's."""
    mine, right = [], []
    for parameter, full in zip(shards, whole.parameters(), strict=True):
        rows = full.grad.chunk(dist.get_world_size())
        local = parameter.to_local()
        gradient = parameter.grad
        mine.append(gradient.to_local() if gradient is not None else 0 * local)
        if dist.get_rank() < len(rows):
            right.append(rows[dist.get_rank()])
    return tuple(torch.cat([t.flatten() for t in part]) for part in (mine, right))
