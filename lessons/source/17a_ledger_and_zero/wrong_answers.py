"""Wrong answers to the exercises of lesson 17a."""

import math
from fractions import Fraction

import numpy as np
import torch
import torch.distributed as dist

from demos.sharding.parts.flat_shards import (
    own_shard,
    ring_all_gather,
    ring_reduce_scatter,
)
from lessons.source.sample_answers import Right, Wrong

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
stage_without_activations = stage_by(ZERO, activations_too=False)
stage_below_the_budget = stage_by(ZERO, strict=True)
stage_with_gradients_first = stage_by([(16, 0), (14, 2), (2, 14), (0, 16)])
stage_in_float32_sizes = stage_by([(16, 0), (8, 8), (4, 12), (0, 16)])
stage_without_copy = stage_by([(12, 0), (4, 8), (2, 10), (0, 12)])


def stage_with_shared_activations(numbers, ranks, activations, budget):
    return stage_by(ZERO)(numbers, ranks, activations // ranks, budget)


def stage_that_is_never_none(numbers, ranks, activations, budget):
    found = stage_by(ZERO)(numbers, ranks, activations, budget)
    return 3 if found is None else found


def largest_stage(numbers, ranks, activations, budget):
    return None if stage_by(ZERO)(numbers, ranks, activations, budget) is None else 3


def stage_as_a_name(numbers, ranks, activations, budget):
    found = stage_by(ZERO)(numbers, ranks, activations, budget)
    return None if found is None else f"ZeRO-{found}"


def stage_from_one(numbers, ranks, activations, budget):
    found = stage_by(ZERO)(numbers, ranks, activations, budget)
    return None if found is None else max(found, 1)


def stage_of_all_ranks_together(numbers, ranks, activations, budget):
    return stage_by(ZERO)(numbers, ranks, activations, budget * ranks)


def stage_by_bytes_for_each(numbers, ranks, activations, budget):
    each = 16, 4 + 12 / ranks, 2 + 14 / ranks, 16 / ranks
    for stage, size in enumerate(each):
        if numbers * size + activations <= budget:
            return stage
    return None


def stage_without_return(numbers, ranks, activations, budget):
    print(stage_by(ZERO)(numbers, ranks, activations, budget))


def stage_by_numpy(numbers, ranks, activations, budget):
    of_each = np.array([[2, 2, 12]] * 4, dtype=np.float64)
    divided = np.tril(np.ones((4, 3)), -1)[:, ::-1]
    sizes = (of_each * numbers / np.where(divided == 1, ranks, 1)).sum(1) + activations
    fits = np.nonzero(sizes <= budget)[0]
    return fits[0] if len(fits) else None


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


def update_with_sum(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(ring_reduce_scatter(gradient))
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


def update_that_forgets(parameters, gradient, momentum, lr):
    momentum = 0.9 * momentum + mean_shard(gradient)
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


def update_without_gather(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient))
    own_shard(parameters).sub_(lr * momentum)


def update_after_gather(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient))
    ring_all_gather(parameters)
    own_shard(parameters).sub_(lr * momentum)


def update_by_own_gradient(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(own_shard(gradient))
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


def update_of_a_copy(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient))
    shard = own_shard(parameters) - lr * momentum
    ring_all_gather(parameters)
    return shard


def update_of_the_first_shard(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient))
    parameters[: len(momentum)].sub_(lr * momentum)
    ring_all_gather(parameters)


def update_by_all_reduce(parameters, gradient, momentum, lr):
    dist.all_reduce(gradient)
    momentum.mul_(0.9).add_(own_shard(gradient) / dist.get_world_size())
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


def update_with_gathered_gradient(parameters, gradient, momentum, lr):
    ring_reduce_scatter(gradient)
    ring_all_gather(gradient)
    momentum.mul_(0.9).add_(own_shard(gradient) / dist.get_world_size())
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


def update_without_momentum(parameters, gradient, momentum, lr):
    own_shard(parameters).sub_(lr * mean_shard(gradient))
    ring_all_gather(parameters)


def update_with_damping(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient), alpha=0.1)
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


def update_that_returns(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient))
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)
    return parameters


def update_of_a_clone(parameters, gradient, momentum, lr):
    momentum.mul_(0.9).add_(mean_shard(gradient))
    new = parameters.clone()
    own_shard(new).sub_(lr * momentum)
    ring_all_gather(new)
    parameters.data = new


def update_of_another_momentum(parameters, gradient, momentum, lr):
    momentum.data = 0.9 * momentum + mean_shard(gradient)
    own_shard(parameters).sub_(lr * momentum)
    ring_all_gather(parameters)


def update_unless_zero(parameters, gradient, momentum, lr):
    if gradient.any() or momentum.any():
        momentum.mul_(0.9).add_(mean_shard(gradient))
        own_shard(parameters).sub_(lr * momentum)
        ring_all_gather(parameters)


def update_by_chunks(parameters, gradient, momentum, lr):
    """The mean is taken first, the shard found by hand, the result copied back."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    gradient /= ranks
    momentum.copy_(momentum * 0.9 + ring_reduce_scatter(gradient))
    parameters.chunk(ranks)[rank].copy_(parameters.chunk(ranks)[rank] - momentum * lr)
    ring_all_gather(parameters)


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


def clip_by_own_length(shards, longest):
    summed(torch.zeros(1))
    return shorten(shards, squares(shards).sqrt().item(), longest)


def clip_without_message(shards, longest):
    return shorten(shards, squares(shards).sqrt().item(), longest)


def clip_by_sum_of_lengths(shards, longest):
    return shorten(shards, summed(squares(shards).sqrt()).item(), longest)


def clip_by_lengths_of_shards(shards, longest):
    return shorten(shards, summed(sum(s.norm() for s in shards)).item(), longest)


def clip_without_root(shards, longest):
    return shorten(shards, summed(squares(shards)).item(), longest)


def clip_always(shards, longest):
    length = summed(squares(shards)).sqrt().item()
    for shard in shards:
        shard.mul_(longest / max(length, 1e-12))
    return length


def clip_copies(shards, longest):
    length = summed(squares(shards)).sqrt().item()
    if length > longest:
        shards = [shard * (longest / length) for shard in shards]
    return length


def clip_each_shard(shards, longest):
    length = summed(squares(shards)).sqrt().item()
    for shard in shards:
        shorten([shard], shard.norm().item(), longest)
    return length


def clip_each_number(shards, longest):
    length = summed(squares(shards)).sqrt().item()
    for shard in shards:
        shard.clamp_(-longest, longest)
    return length


def clip_only_the_first(shards, longest):
    return shorten(shards[:1], summed(squares(shards)).sqrt().item(), longest)


def clip_with_a_sum_for_each_shard(shards, longest):
    total = sum(summed(shard.square().sum()).item() for shard in shards)
    return shorten(shards, math.sqrt(total), longest)


def clip_and_return_what_is_left(shards, longest):
    return min(shorten(shards, summed(squares(shards)).sqrt().item(), longest), longest)


def clip_by_the_largest(shards, longest):
    total = squares(shards)
    dist.all_reduce(total, op=dist.ReduceOp.MAX)
    return shorten(shards, total.sqrt().item(), longest)


def clip_by_means(shards, longest):
    total = summed(squares(shards)) / dist.get_world_size()
    return shorten(shards, total.sqrt().item(), longest)


def clip_by_32_bits(shards, longest):
    total = summed(torch.tensor(float(squares(shards))))
    return shorten(shards, total.sqrt().item(), longest)


def clip_by_a_division(shards, longest):
    length = summed(squares(shards)).sqrt().item()
    factor = longest / length
    for shard in shards:
        shard.mul_(min(1, factor))
    return length


def clip_in_64_bits(shards, longest):
    total = torch.cat(shards).double().norm().square()
    dist.all_reduce(total)
    factor = (longest / total.sqrt()).clamp(max=1)
    for shard in shards:
        shard.copy_(shard * factor)
    return total.sqrt()


def clip_by_dot_products(shards, longest):
    total = torch.stack([torch.dot(shard, shard) for shard in shards]).sum(0, True)
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    length = float(total[0]) ** 0.5
    if length > longest:
        torch._foreach_mul_(shards, longest / length)
    return np.float64(length)


WRONG = {
    "17a-stage": [
        Wrong(
            "without_activations",
            stage_without_activations,
            "activations come on top",
            note="Activations are forgotten: no stage shards them.",
        ),
        Wrong("shared_activations", stage_with_shared_activations, "activations come"),
        Wrong(
            "below_the_budget",
            stage_below_the_budget,
            "(to|takes the budget to) the last",
        ),
        Wrong(
            "gradients_first",
            stage_with_gradients_first,
            "which of the parts",
            note="Stage 1 shards the largest part: the optimiser.",
        ),
        Wrong("float32_sizes", stage_in_float32_sizes, "which of the parts"),
        Wrong("without_copy", stage_without_copy, "its state is"),
        Wrong("never_none", stage_that_is_never_none, "a rank holds in stage 3"),
        Wrong("always_3", largest_stage, "which of the parts"),
        Wrong("a_name", stage_as_a_name, "fits, to the last byte"),
        Wrong("from_one", stage_from_one, "stage 0"),
        Wrong("all_ranks_together", stage_of_all_ranks_together, "its state is"),
        Wrong("bytes_for_each", stage_by_bytes_for_each, "to the last byte"),
        Wrong("without_return", stage_without_return, "fits, to the last byte"),
    ],
    "17a-update": [
        Wrong("sum", update_with_sum, "the mean of all gradients"),
        Wrong(
            "forgets",
            update_that_forgets,
            "changed in place",
            note="`momentum = 0.9 * momentum + shard` makes a new tensor.",
        ),
        Wrong("no_gather", update_without_gather, "what has to travel"),
        Wrong("update_after_gather", update_after_gather, "gathered after the update"),
        Wrong("own_gradient", update_by_own_gradient, "what has to travel"),
        Wrong("a_copy", update_of_a_copy, "in the memory of `parameters`"),
        Wrong(
            "first_shard", update_of_the_first_shard, "which shard this rank updates"
        ),
        Wrong("all_reduce", update_by_all_reduce, "called all_reduce"),
        Wrong(
            "gathered_gradient",
            update_with_gathered_gradient,
            "what has to travel",
            note="The gradient is gathered too: 3 halves instead of 2.",
        ),
        Wrong("no_momentum", update_without_momentum, "momentum"),
        Wrong("damped", update_with_damping, "the mean of all gradients"),
        Wrong("returns", update_that_returns, "nothing is returned"),
        Wrong("a_clone", update_of_a_clone, "parameters in other memory"),
        Wrong("other_momentum", update_of_another_momentum, "momentum in other memory"),
        Wrong("unless_zero", update_unless_zero, "whatever it holds", "HUNG"),
    ],
    "17a-clip": [
        Wrong(
            "own_length",
            clip_by_own_length,
            "may be added up over all ranks",
            note="Each rank clips by its own length: the direction changes.",
        ),
        Wrong("no_message", clip_without_message, "one all-reduce on every rank"),
        Wrong(
            "sum_of_lengths",
            clip_by_sum_of_lengths,
            "may be added up over all ranks",
            note="Lengths are added up instead of their squares.",
        ),
        Wrong("lengths_of_shards", clip_by_lengths_of_shards, "may be added up"),
        Wrong("no_root", clip_without_root, "may be added up"),
        Wrong("always", clip_always, "multiplied, in place, and when"),
        Wrong("copies", clip_copies, "in place"),
        Wrong("each_shard", clip_each_shard, "by what all shards are multiplied"),
        Wrong("each_number", clip_each_number, "by what all shards are multiplied"),
        Wrong("only_the_first", clip_only_the_first, "by what all shards"),
        Wrong(
            "many_sums",
            clip_with_a_sum_for_each_shard,
            "one all-reduce on every rank",
        ),
        Wrong("what_is_left", clip_and_return_what_is_left, "before it is clipped"),
        Wrong("largest", clip_by_the_largest, "may be added up"),
        Wrong("means", clip_by_means, "may be added up"),
        Wrong("32_bits", clip_by_32_bits, "how many digits"),
        Wrong("a_division", clip_by_a_division, "what is divided by it"),
    ],
}
RIGHT = {
    "17a-stage": [
        Right("numpy", stage_by_numpy),
        Right("fractions", stage_by_fractions),
    ],
    "17a-update": [
        Right("chunks", update_by_chunks),
        Right("torchs_sgd", update_by_torchs_sgd),
    ],
    "17a-clip": [
        Right("in_64_bits", clip_in_64_bits),
        Right("dot_products", clip_by_dot_products),
    ],
}
