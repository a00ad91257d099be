"""Wrong answers to the exercises of lesson 17a."""

from fractions import Fraction

import numpy as np
import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.sharding.flat_shards import (
    own_shard,
    ring_all_gather,
    ring_reduce_scatter,
)

# 17a-stage ----------------------------------------------------------------------------


def stage_by(sizes, activations_too=True, strict=False):
    """A function that takes the first stage whose size is small enough."""

    def smallest(numbers, ranks, activations, budget):
        for stage, (whole, shards) in enumerate(sizes):
            state = whole * numbers + shards * numbers // ranks
            needed = state + activations * activations_too
            if needed < budget or (needed == budget and not strict):
                return stage
        return None

    return smallest


ZERO = [(16, 0), (4, 12), (2, 14), (0, 16)]
wrong(
    "17a-stage",
    advice=r"16 \+ 16 \+ 24 \+ 10, are 66",
    name="without_activations",
    note="Activations are forgotten: no stage shards them.",
)(stage_by(ZERO, activations_too=False))
wrong(
    "17a-stage",
    advice=r"are ([\d,]+) bytes, and at most \1 fit",
    name="below_the_budget",
    note="They write `<`, so a budget that is used to the last byte does not do.",
)(stage_by(ZERO, strict=True))
wrong(
    "17a-stage",
    advice="stage 1: parameters",
    name="gradients_first",
    note="Stage 1 shards the largest part: the optimiser.",
)(stage_by([(16, 0), (14, 2), (2, 14), (0, 16)]))
wrong(
    "17a-stage",
    advice=r"16 \+ 16 \+ 24",
    name="without_copy",
    note="They forget the 4 bytes of the float32 copy.",
)(stage_by([(12, 0), (4, 8), (2, 10), (0, 12)]))


@wrong(
    "17a-stage",
    advice="10, are 66",
    note="They divide the activations by the ranks, too.",
)
def stage_with_shared_activations(numbers, ranks, activations, budget):
    return stage_by(ZERO)(numbers, ranks, activations // ranks, budget)


@wrong(
    "17a-stage",
    advice="a rank holds in stage 3",
    note="They return the last stage if none fits.",
)
def stage_that_is_never_none(numbers, ranks, activations, budget):
    found = stage_by(ZERO)(numbers, ranks, activations, budget)
    return 3 if found is None else found


@right("17a-stage")
def stage_by_numpy(numbers, ranks, activations, budget):
    of_each = np.array([[2, 2, 12]] * 4, dtype=np.float64)
    divided = np.tril(np.ones((4, 3)), -1)[:, ::-1]
    sizes = (of_each * numbers / np.where(divided == 1, ranks, 1)).sum(1) + activations
    fits = np.nonzero(sizes <= budget)[0]
    return fits[0] if len(fits) else None


@right("17a-stage")
def stage_by_fractions(numbers, ranks, activations, budget):
    left = Fraction(budget - activations, numbers)
    sizes = [Fraction(12), Fraction(2), Fraction(2)]
    for stage in range(4):
        if sum(sizes) <= left:
            return stage
        if stage < 3:
            sizes[stage] /= ranks
    return None


# 17a-update ---------------------------------------------------------------------------


def mean_shard(gradient):
    return ring_reduce_scatter(gradient) / dist.get_world_size()


@wrong(
    "17a-update",
    advice="the mean of all ranks' gradients",
    note="They forget that the ring gives the sum.",
)
def update_with_sum(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(ring_reduce_scatter(gradient))
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


@wrong(
    "17a-update",
    advice="changed in place",
    note="`momentum = 0.9 * momentum + shard` makes a new tensor.",
)
def update_that_forgets(parameters, gradient, momentum, lr):
    momentum = 0.9 * momentum + mean_shard(gradient)
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


@wrong(
    "17a-update",
    advice="what has to travel",
    note="They update their shard and do not tell the others.",
)
def update_without_gather(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient))
    own_shard(parameters).sub_(lr * momentum)


@wrong(
    "17a-update",
    advice="gathered after the update",
    note="They gather before the update.",
)
def update_after_gather(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient))
    ring_all_gather(parameters)
    own_shard(parameters).sub_(lr * momentum)


@wrong(
    "17a-update",
    advice="the mean of all ranks' gradients",
    note="They use this rank's gradient, and no reduce-scatter.",
)
def update_by_own_gradient(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(own_shard(gradient))
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


@wrong(
    "17a-update",
    advice="what has to travel",
    note="The gradient is gathered too: 3 halves instead of 2.",
)
def update_with_gathered_gradient(parameters, gradient, momentum, lr):
    ring_reduce_scatter(gradient)
    ring_all_gather(gradient)
    momentum.mul_(0.9).add_(own_shard(gradient) / dist.get_world_size())
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


@right("17a-update")
def update_by_chunks(parameters, gradient, momentum, lr):
    """The mean is taken first, the shard found by hand, the result copied back."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    gradient /= ranks
    momentum.copy_(momentum * 0.9 + ring_reduce_scatter(gradient))
    parameters.chunk(ranks)[rank].copy_(parameters.chunk(ranks)[rank] - momentum * lr)
    ring_all_gather(parameters)


@right("17a-update")
def update_by_torchs_sgd(parameters, gradient, momentum, lr):
    weight = torch.nn.Parameter(own_shard(parameters))
    sgd = torch.optim.SGD([weight], lr=lr, momentum=0.9, foreach=False)
    sgd.state[weight]["momentum_buffer"] = momentum
    weight.grad = mean_shard(gradient)
    sgd.step()
    ring_all_gather(parameters)


# 17a-clip -----------------------------------------------------------------------------


def summed(number):
    dist.all_reduce(number)
    return number


def squares(shards):
    return sum(shard.square().sum() for shard in shards)


def shorten(shards, length, longest):
    if length > longest:
        for shard in shards:
            shard.mul_(longest / length)
    return length


@wrong(
    "17a-clip",
    advice="may be added up over all ranks",
    note="Each rank clips by its own length: the direction changes.",
)
def clip_by_own_length(shards, longest):
    summed(torch.zeros(1))
    return shorten(shards, squares(shards).sqrt().item(), longest)


@wrong(
    "17a-clip",
    advice="one all-reduce on every rank",
    note="They forget the other ranks.",
)
def clip_without_message(shards, longest):
    return shorten(shards, squares(shards).sqrt().item(), longest)


@wrong(
    "17a-clip",
    advice="may be added up over all ranks",
    note="Lengths are added up instead of their squares.",
)
def clip_by_sum_of_lengths(shards, longest):
    return shorten(shards, summed(squares(shards).sqrt()).item(), longest)


@wrong(
    "17a-clip",
    advice="is this gradient too long",
    note="They stretch a short gradient to `longest` as well.",
)
def clip_always(shards, longest):
    length = summed(squares(shards)).sqrt().item()
    for shard in shards:
        shard.mul_(longest / max(length, 1e-12))
    return length


@wrong(
    "17a-clip",
    advice="shards that were given are changed in place",
    note="They make new shards; the caller's stay as they were.",
)
def clip_copies(shards, longest):
    length = summed(squares(shards)).sqrt().item()
    if length > longest:
        shards = [shard * (longest / length) for shard in shards]
    return length


@wrong(
    "17a-clip",
    advice="by what shards are multiplied",
    note="They clip each shard by itself.",
)
def clip_each_shard(shards, longest):
    length = summed(squares(shards)).sqrt().item()
    for shard in shards:
        shorten([shard], shard.norm().item(), longest)
    return length


@right("17a-clip")
def clip_in_64_bits(shards, longest):
    total = torch.cat(shards).double().norm().square()
    dist.all_reduce(total)
    factor = (longest / total.sqrt()).clamp(max=1)
    for shard in shards:
        shard.copy_(shard * factor)
    return total.sqrt()


@right("17a-clip")
def clip_by_dot_products(shards, longest):
    total = torch.stack([torch.dot(shard, shard) for shard in shards]).sum(0, True)
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    length = float(total[0]) ** 0.5
    if length > longest:
        torch._foreach_mul_(shards, longest / length)
    return np.float64(length)
