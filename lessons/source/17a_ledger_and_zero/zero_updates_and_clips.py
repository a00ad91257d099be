"""What the checks of lesson 17a run in each rank, and what they note there."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from unittest import mock

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

from parallel_by_hand.sharding.flat_shards import own_shard
from sidebyside import MessageMeter, device


class ZeroUpdateCase(NamedTuple):
    shard: int  # numbers for each rank
    steps: int
    lr: float


class ZeroUpdateNotes(NamedTuple):
    """What one rank holds after one step, what it should hold, and what it has sent."""

    parameters: torch.Tensor
    momentum: torch.Tensor
    expected: torch.Tensor
    expected_momentum: torch.Tensor
    bytes_sent: int
    collectives: list[str]


class ShardClipCase(NamedTuple):
    lengths: tuple[int, ...]  # of the shards of rank 0; the other ranks have others
    size: float  # about how large the numbers are
    longest: float


class ShardClipNotes(NamedTuple):
    returned: object
    length: float
    shards: list[torch.Tensor]
    expected: list[torch.Tensor]
    calls: list[str]  # collectives, and "send" for a message
    travelled: int  # numbers in all tensors given to an all-reduce


def try_zero_updates(
    update: Callable, cases: list[ZeroUpdateCase]
) -> list[list[ZeroUpdateNotes]]:
    return [_try_zero_update(update, seed, case) for seed, case in enumerate(cases)]


def _try_zero_update(
    update: Callable, seed: int, case: ZeroUpdateCase
) -> list[ZeroUpdateNotes]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    numbers = case.shard * ranks
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        drawn = torch.randn(shape, generator=generator, dtype=torch.double)
        return drawn.to(device())

    expected = draw(numbers)
    parameters, mean_momentum = expected.clone(), torch.zeros_like(expected)
    momentum, notes = torch.zeros_like(own_shard(expected)), []
    for _ in range(case.steps):
        gradients = draw(ranks, numbers)  # those of all ranks, on every rank
        dist.barrier()
        with MessageMeter() as meter:
            update(parameters, gradients[rank].clone(), momentum, case.lr)
        mean_momentum = 0.9 * mean_momentum + gradients.mean(0)
        expected = expected - case.lr * mean_momentum
        held = parameters, momentum, expected, own_shard(mean_momentum)
        notes.append(
            ZeroUpdateNotes(
                *(tensor.detach().cpu().clone() for tensor in held),
                meter.bytes_sent,
                meter.collectives,
            )
        )
    return notes


def try_shard_clips(clip: Callable, cases: list[ShardClipCase]) -> list[ShardClipNotes]:
    return [_try_shard_clip(clip, seed, case) for seed, case in enumerate(cases)]


def shards_to_clip(rank: int, seed: int, case: ShardClipCase) -> list[torch.Tensor]:
    """Shards get longer from rank to rank."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    draw = partial(torch.randn, generator=generator, dtype=torch.double)
    return [case.size * draw(length + rank).to(device()) for length in case.lengths]


def _try_shard_clip(clip: Callable, seed: int, case: ShardClipCase) -> ShardClipNotes:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everyone = [shards_to_clip(other, seed, case) for other in range(ranks)]
    whole = torch.cat([shard for shards in everyone for shard in shards])
    length = whole.double().norm().item()
    factor = case.longest / length if length > case.longest else 1
    shards = [shard.clone() for shard in everyone[rank]]
    kept = list(shards)
    travelled: list[int] = []
    original = dist.ProcessGroup.allreduce

    def counted(group, tensors, *args, **options):
        travelled.append(sum(tensor.numel() for tensor in tree_leaves(tensors)))
        return original(group, tensors, *args, **options)

    counting = mock.patch.object(dist.ProcessGroup, "allreduce", counted)
    dist.barrier()
    with counting, MessageMeter() as meter:
        returned = clip(shards, case.longest)
    if isinstance(returned, torch.Tensor):
        returned = returned.detach().cpu()
        returned = returned.item() if returned.numel() == 1 else "a tensor of several"
    return ShardClipNotes(
        returned,
        length,
        [shard.cpu() for shard in kept],
        [(shard * factor).cpu() for shard in everyone[rank]],
        meter.collectives + ["send"] * meter.messages_sent,
        sum(travelled),
    )
