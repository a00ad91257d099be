"""Wrong answers to the exercises of lesson 11a, as people give them."""

import numpy as np
import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from sidebyside import device

# 11a-shard ----------------------------------------------------------------------------


def _deck(samples, seed):
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed))


@wrong(
    "11a-shard",
    advice="do all ranks shuffle the same one",
    note="The rank got into the seed: some samples come twice, some never.",
)
def shard_own_deck(samples, rank, world_size, epoch):
    return _deck(samples, 1000 * epoch + rank)[rank::world_size].tolist()


@wrong(
    "11a-shard",
    advice="set_epoch",
    note="The same as a training loop without set_epoch. Nothing crashes.",
)
def shard_without_epoch(samples, rank, world_size, epoch):
    return _deck(samples, 0)[rank::world_size].tolist()


@wrong(
    "11a-shard",
    advice="does not divide the number of samples",
    note="Rounding down loses up to world_size - 1 samples.",
)
def shard_without_the_remainder(samples, rank, world_size, epoch):
    size = samples // world_size
    return _deck(samples, epoch)[rank * size : (rank + 1) * size].tolist()


@wrong(
    "11a-shard",
    advice="no two ranks differ by more than one",
    note="Rounding up: of 14 samples, the last of 4 ranks gets only two.",
)
def shard_rounded_up(samples, rank, world_size, epoch):
    size = -(-samples // world_size)
    return _deck(samples, epoch)[rank * size : (rank + 1) * size].tolist()


@wrong(
    "11a-shard",
    advice="what is shuffled first and dealt afterwards",
    note="Each rank sees the same half for ever, in changing order.",
)
def shard_dealt_first(samples, rank, world_size, epoch):
    mine = torch.arange(samples)[rank::world_size]
    return mine[_deck(len(mine), epoch)].tolist()


@wrong(
    "11a-shard",
    advice="where the randomness comes from",
    note="Works in one process, where one generator is shared.",
)
def shard_without_a_seed(samples, rank, world_size, epoch):
    return torch.randperm(samples)[rank::world_size].tolist()


@wrong(
    "11a-shard",
    advice="what differs from process to process",
    note="Equal in one process. The hash of a text differs in the next.",
)
def shard_by_hash(samples, rank, world_size, epoch):
    return _deck(samples, hash(f"epoch {epoch}"))[rank::world_size].tolist()


@right("11a-shard")
def shard_in_blocks(samples, rank, world_size, epoch):
    order = np.random.default_rng(7919 * epoch).permutation(samples)
    return np.array_split(order, world_size)[rank]  # NumPy's whole numbers


@right("11a-shard")
def shard_seeded_for_all(samples, rank, world_size, epoch):
    torch.manual_seed(epoch + 1)
    return torch.randperm(samples).tensor_split(world_size)[-1 - rank]


# 11a-stop -----------------------------------------------------------------------------


def _reduced(loss, how=dist.ReduceOp.SUM) -> float:
    message = torch.tensor(float(loss), device=device())
    dist.all_reduce(message, how)
    return message.item()


def _until(reached, most) -> int:
    steps, done = 0, False
    while steps < most and not done:
        done = reached()
        steps += 1
    return steps


@wrong(
    "11a-stop",
    advice="whose loss decides",
    state="HUNG",
    note="The rank that is done first leaves the others in their next all-reduce.",
)
def stops_by_its_own_loss(step, target, most):
    return _until(lambda: step() <= target, most)


@wrong(
    "11a-stop",
    advice="rank 0's",
    note="All ranks agree, on the loss of rank 0's share alone.",
)
def stops_by_rank_0(step, target, most):
    def reached() -> bool:
        message = torch.tensor(float(step()), device=device())
        dist.broadcast(message, src=0)
        return message.item() <= target

    return _until(reached, most)


@wrong(
    "11a-stop",
    advice="the sum, or the mean",
    note="all_reduce adds up, and nothing divides.",
)
def stops_by_the_sum(step, target, most):
    return _until(lambda: _reduced(step()) <= target, most)


@wrong(
    "11a-stop",
    advice="the first that is at most 3",
    note="A mean that just reaches the target is not low enough for it.",
)
def stops_below_the_target(step, target, most):
    return _until(lambda: _reduced(step()) / dist.get_world_size() < target, most)


@wrong(
    "11a-stop",
    advice="is one enough|rank 0's",
    note="One rank that is done stops all. Nothing hangs, and all stop too early.",
)
def stops_when_one_is_done(step, target, most):
    return _until(lambda: _reduced(step(), dist.ReduceOp.MIN) <= target, most)


@wrong(
    "11a-stop",
    advice="at most 5 are allowed",
    note="`most` is forgotten: a target that is never reached trains for ever.",
)
def never_gives_up(step, target, most):
    return by_gathered_losses(step, target, 10**9)


@wrong(
    "11a-stop",
    advice="the number of steps",
    note="range counts from 0, and so does what is returned.",
)
def counts_from_zero(step, target, most):
    return by_gathered_losses(step, target, most) - 1


@right("11a-stop")
def by_gathered_losses(step, target, most):
    """Every rank gets all losses, and takes the mean itself."""

    def reached() -> bool:
        losses = [None] * dist.get_world_size()
        dist.all_gather_object(losses, step())
        return sum(losses) / len(losses) <= target

    return _until(reached, most)


@right("11a-stop")
def rank_0_decides_for_all(step, target, most):
    """The losses go to rank 0, and its decision comes back."""

    def reached() -> bool:
        message = torch.tensor(float(step()), device=device())
        dist.reduce(message, 0)
        decision = (message / dist.get_world_size() <= target).float()
        dist.broadcast(decision, src=0)
        return bool(decision)

    return _until(reached, most)
