"""What the checks of lesson 17a run in each rank, and what they note there."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

from parallel_by_hand.sharding.flat_shards import own_shard
from sidebyside import MessageMeter, device


class ZeroUpdateCase(NamedTuple):
    shard: int  # numbers for each rank
    steps: int
    lr: float
    dtype: torch.dtype
    resting: bool = False  # are all gradients of the last rank 0?


class ZeroUpdateNotes(NamedTuple):
    """What one rank holds after one step, what it should hold, and what it has sent."""

    parameters: torch.Tensor
    momentum: torch.Tensor
    expected: torch.Tensor
    expected_momentum: torch.Tensor
    wrong_gradient: torch.Tensor  # the parameters, had the sum not been divided
    bytes_sent: int
    collectives: list[str]
    not_awaited: int
    returned: str
    moved: list[str]  # what lies in other memory than before


class ShardClipCase(NamedTuple):
    lengths: tuple[int, ...]  # of the shards of rank 0; the other ranks have others
    size: float  # about how large the numbers are
    longest: float
    dtype: torch.dtype
    fewer: bool = True  # do later ranks have fewer shards?


class ShardClipNotes(NamedTuple):
    returned: object
    length: float
    shards: list[torch.Tensor]
    expected: list[torch.Tensor]
    collectives: list[str]
    messages: int
    travelled: int  # numbers in all tensors given to an all-reduce
    not_awaited: int


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
        drawn = torch.randn(shape, generator=generator, dtype=case.dtype)
        return drawn.to(device())

    expected = draw(numbers)
    parameters, mean_momentum = expected.clone(), torch.zeros_like(expected)
    momentum, undivided = torch.zeros_like(own_shard(expected)), expected.clone()
    sum_momentum, notes = torch.zeros_like(expected), []
    for _ in range(case.steps):
        gradients = draw(ranks, numbers)  # those of all ranks, on every rank
        gradients[-1] *= not case.resting
        mine = gradients[rank].clone()
        places = {"parameters": parameters.data_ptr(), "momentum": momentum.data_ptr()}
        dist.barrier()
        with MessageMeter() as meter:
            returned = update(parameters, mine, momentum, case.lr)
        kept = {"parameters": parameters, "momentum": momentum}
        moved = [name for name in kept if kept[name].data_ptr() != places[name]]
        mean_momentum = 0.9 * mean_momentum + gradients.mean(0)
        sum_momentum = 0.9 * sum_momentum + gradients.sum(0)
        expected = expected - case.lr * mean_momentum
        undivided = undivided - case.lr * sum_momentum
        held = (parameters, momentum, expected, own_shard(mean_momentum), undivided)
        notes.append(
            ZeroUpdateNotes(
                *(tensor.detach().cpu().clone() for tensor in held),
                meter.bytes_sent,
                [name for name in meter.collectives if name != "barrier"],
                meter.not_awaited,
                type(returned).__name__,
                moved,
            )
        )
    return notes


def try_shard_clips(clip: Callable, cases: list[ShardClipCase]) -> list[ShardClipNotes]:
    return [_try_shard_clip(clip, seed, case) for seed, case in enumerate(cases)]


def lengths_of_clipped_shards(rank: int, case: ShardClipCase) -> list[int]:
    """Shards get longer from rank to rank, and fewer, but there is at least one."""
    lengths = [length + rank * (length > 0) for length in case.lengths]
    return lengths[: max(1, len(lengths) - rank * case.fewer)]


def shards_to_clip(rank: int, seed: int, case: ShardClipCase) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return [
        case.size
        * torch.randn(length, generator=generator, dtype=case.dtype).to(device())
        for length in lengths_of_clipped_shards(rank, case)
    ]


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
        sent = tensors if isinstance(tensors, list | tuple) else [tensors]
        travelled.append(sum(tensor.numel() for tensor in sent))
        return original(group, tensors, *args, **options)

    dist.barrier()
    dist.ProcessGroup.allreduce = counted
    try:
        with MessageMeter() as meter:
            returned = clip(shards, case.longest)
    finally:
        dist.ProcessGroup.allreduce = original
    if isinstance(returned, torch.Tensor):
        returned = returned.detach().cpu()
        returned = returned.item() if returned.numel() == 1 else "a tensor of several"
    return ShardClipNotes(
        returned,
        length,
        [shard.cpu() for shard in kept],
        [(shard * factor).cpu() for shard in everyone[rank]],
        [name for name in meter.collectives if name != "barrier"],
        meter.messages_sent,
        sum(travelled),
        meter.not_awaited,
    )
