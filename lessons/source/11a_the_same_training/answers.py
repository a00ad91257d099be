"""Wrong answers to the exercises of lesson 11a, as people give them."""

import copy
import functools
import pickle
import random
import time

import numpy as np
import torch
from torch.func import functional_call
from torch.nn import functional as F

from lessons.source.sample_answers import right, wrong

# 11a-shard ----------------------------------------------------------------------------


def _deck(samples, seed):
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed))


@wrong("11a-shard", advice="does it begin elsewhere")
def shard_that_begins_elsewhere(samples, rank, world_size, epoch):
    deck = list(range(samples))
    random.Random(2026).shuffle(deck)
    first = epoch % samples if samples else 0
    return (deck[first:] + deck[:first])[rank::world_size]


@wrong(
    "11a-shard",
    advice="more than once.*exactly once",
    note="The ranks do the same work side by side, and nothing gets faster.",
)
def shard_all(samples, rank, world_size, epoch):
    return _deck(samples, epoch).tolist()


@wrong(
    "11a-shard",
    advice="do all ranks shuffle the same deck",
    note="The rank got into the seed: some samples come twice, some never.",
)
def shard_own_deck(samples, rank, world_size, epoch):
    return _deck(samples, 1000 * epoch + rank)[rank::world_size].tolist()


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
    note="Rounding up. Of 14 samples, the last of 4 ranks gets two fewer "
    "than the others.",
)
def shard_rounded_up(samples, rank, world_size, epoch):
    size = -(-samples // world_size)
    return _deck(samples, epoch)[rank * size : (rank + 1) * size].tolist()


@wrong(
    "11a-shard",
    advice="more than once",
    note="torch's DistributedSampler does this, so that all shards are equally "
    "long. Worth a word: it is a decision, not a law.",
)
def shard_padded(samples, rank, world_size, epoch):
    deck = _deck(samples, epoch).tolist()
    deck += deck[: -samples % world_size]
    return deck[rank::world_size]


@wrong(
    "11a-shard",
    advice="set_epoch",
    note="The same as a training loop without set_epoch. Nothing crashes.",
)
def shard_without_epoch(samples, rank, world_size, epoch):
    return _deck(samples, 0)[rank::world_size].tolist()


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
    advice="what makes it random in epoch 0",
    note="Every index is dealt once, and each epoch has another order; but "
    "neighbours in the file stay neighbours.",
)
def shard_turned(samples, rank, world_size, epoch):
    return [(i + epoch) % samples for i in range(rank, samples, world_size)]


@wrong("11a-shard", advice="epochs 0 and 2.*where do they become the same")
def shard_every_second_epoch(samples, rank, world_size, epoch):
    return _deck(samples, epoch % 2)[rank::world_size].tolist()


@wrong("11a-shard", advice="epochs 0 and 10.*where do they become the same")
def shard_of_ten_decks(samples, rank, world_size, epoch):
    return _deck(samples, epoch % 10)[rank::world_size].tolist()


_seeds = np.random.default_rng(11).integers(2**31, size=100).tolist()


@wrong("11a-shard", advice=r"shard.1415, 0, 2, 100..*IndexError")
def shard_of_a_hundred_epochs(samples, rank, world_size, epoch):
    return _deck(samples, _seeds[epoch])[rank::world_size].tolist()


@wrong(
    "11a-shard",
    advice="how large a number can your indices hold",
    note="From 32,769 samples on some are negative, and with 65,537 they begin "
    "to repeat.",
)
def shard_in_16_bits(samples, rank, world_size, epoch):
    return _deck(samples, epoch).to(torch.int16)[rank::world_size].tolist()


@wrong(
    "11a-shard",
    advice="the order in which a rank gets its own indices",
    note="Shuffled and dealt as it should be, and put in order again.",
)
def shard_sorted(samples, rank, world_size, epoch):
    return sorted(_deck(samples, epoch)[rank::world_size].tolist())


@wrong(
    "11a-shard",
    advice="what differs from process to process",
    note="Equal in one process. The hash of a text differs in the next.",
)
def shard_by_hash(samples, rank, world_size, epoch):
    return _deck(samples, hash(f"epoch {epoch}"))[rank::world_size].tolist()


@wrong("11a-shard", advice="process to process: the time")
def shard_by_the_day(samples, rank, world_size, epoch):
    return _deck(samples, int(time.time() / 86400) + epoch)[rank::world_size].tolist()


_kept = {}


@wrong(
    "11a-shard",
    advice="was drawn or kept before",
    note="Drawn without a seed, and kept: each rank keeps another one.",
)
def shard_remembered(samples, rank, world_size, epoch):
    deck = _kept.setdefault((samples, epoch), torch.randperm(samples))
    return deck[rank::world_size].tolist()


@wrong("11a-shard", advice="whole numbers only")
def shard_of_floats(samples, rank, world_size, epoch):
    return _deck(samples, epoch)[rank::world_size].double().tolist()


@right("11a-shard")
def shard_in_blocks(samples, rank, world_size, epoch):
    order = np.random.default_rng(7919 * epoch).permutation(samples)
    return np.array_split(order, world_size)[rank]  # NumPy's whole numbers


@right("11a-shard")
def shard_seeded_for_all(samples, rank, world_size, epoch):
    torch.manual_seed(epoch + 1)
    return torch.randperm(samples).tensor_split(world_size)[-1 - rank]


def _in_a_cell(function):
    """As if it were defined in a notebook: it is sent with its code."""
    function.__module__ = "__main__"
    return function


@_in_a_cell
@functools.lru_cache(maxsize=4)
@_in_a_cell
def cached_deck(samples, epoch):
    return tuple(random.Random(epoch).sample(range(samples), samples))


@right("11a-shard")
@_in_a_cell
@functools.cache
@_in_a_cell
def shard_of_a_cached_deck(samples, rank, world_size, epoch):
    return cached_deck(samples, epoch)[rank::world_size]


# 11a-replicas -------------------------------------------------------------------------


def _replica_step(replicas, shards, lr, combine):
    for replica, (images, labels) in zip(replicas, shards, strict=True):
        F.cross_entropy(replica(images), labels).backward()
    for parameters in zip(*(r.parameters() for r in replicas), strict=True):
        gradient = combine([p.grad for p in parameters])
        for parameter in parameters:
            parameter.data -= lr * gradient
            parameter.grad = None
    return replicas


def _mean(grads):
    return sum(grads) / len(grads)


@wrong(
    "11a-replicas",
    advice="where the numbers of each replica live",
    note="`[model] * n` is one model. Its gradients add up and it takes every "
    "step: with two shards the step is too long.",
)
def replicas_one_storage(model, shards, lr):
    return _replica_step([copy.deepcopy(model)] * len(shards), shards, lr, _mean)


@wrong(
    "11a-replicas",
    advice="where the numbers of each replica live",
    note="copy.copy makes a new module around the same parameters.",
)
def replicas_shallow_copies(model, shards, lr):
    return _replica_step([copy.copy(model) for _ in shards], shards, lr, _mean)


@wrong(
    "11a-replicas",
    advice="where the numbers of each replica live",
    note="Replica 0 is the model that was given.",
)
def replicas_of_the_given_model(model, shards, lr):
    copies = [copy.deepcopy(model) for _ in shards[1:]]
    return _replica_step([model, *copies], shards, lr, _mean)


@wrong(
    "11a-replicas",
    advice="the sum of the replicas' gradients and their mean",
    note="With SGD the step is n times too long. Adam hides it: 1.9e-2 "
    "apart under SGD was 1.3e-4 under AdamW.",
)
def replicas_sum(model, shards, lr):
    return _replica_step([copy.deepcopy(model) for _ in shards], shards, lr, sum)


@wrong(
    "11a-replicas",
    advice="mean of means is not the mean",
    note="Right as long as all shards are equally long.",
)
def replicas_mean_of_means(model, shards, lr):
    return _replica_step([copy.deepcopy(model) for _ in shards], shards, lr, _mean)


@wrong(
    "11a-replicas",
    advice="before it takes its step",
    note="After one step there are n different models.",
)
def replicas_each_its_own_step(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    for replica, shard in zip(replicas, shards, strict=True):
        _replica_step([replica], [shard], lr, _mean)
    return replicas


@wrong(
    "11a-replicas",
    advice="which one only is to be copied",
    note="The replicas are right, and the model has been trained behind their back.",
)
def replicas_copied_afterwards(model, shards, lr):
    images, labels = (torch.cat(parts) for parts in zip(*shards, strict=True))
    _replica_step([model], [(images, labels)], lr, _mean)
    return [copy.deepcopy(model) for _ in shards]


@wrong("11a-replicas", advice="which line changes the parameters")
def replicas_no_step(model, shards, lr):
    return [copy.deepcopy(model) for _ in shards]


@wrong("11a-replicas", advice="came back None")
def replicas_nothing(model, shards, lr):
    pass


def _gradients_of_the_batch(replicas, shards):
    """Each replica holds its part; the parts add up to the single process's."""
    total = sum(len(labels) for _, labels in shards)
    for replica, (images, labels) in zip(replicas, shards, strict=True):
        F.cross_entropy(replica(images), labels).mul(len(labels) / total).backward()
    return [
        None if p[0].grad is None else sum(q.grad for q in p)
        for p in zip(*(r.parameters() for r in replicas), strict=True)
    ]


def _step_with(replicas, gradients, lr, sign=-1):
    for replica in replicas:
        for parameter, gradient in zip(replica.parameters(), gradients, strict=True):
            if gradient is not None:
                parameter.data += sign * lr * gradient
    return replicas


@wrong("11a-replicas", advice="-1.00 times as long")
def replicas_upwards(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    return _step_with(replicas, _gradients_of_the_batch(replicas, shards), lr, sign=1)


@wrong("11a-replicas", advice="is multiplied by")
def replicas_with_their_own_rate(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    return _step_with(replicas, _gradients_of_the_batch(replicas, shards), 0.5)


@wrong(
    "11a-replicas",
    advice="unsupported operand.*parameter holds: None",
    note="The gradient of a frozen parameter is None, not zero.",
)
def replicas_without_none(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    total = sum(len(labels) for _, labels in shards)
    for replica, (images, labels) in zip(replicas, shards, strict=True):
        loss = F.cross_entropy(replica(images), labels, reduction="sum")
        (loss / total).backward()
    gradients = [
        sum(p.grad for p in same)
        for same in zip(*(r.parameters() for r in replicas), strict=True)
    ]
    return _step_with(replicas, gradients, lr)


@wrong(
    "11a-replicas",
    advice="whose forward that was",
    note="The right step. The model lends its layers to every replica; those "
    "that count what passes, such as batch norm, count it all.",
)
def replicas_through_the_model(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    total = sum(len(labels) for _, labels in shards)
    for replica, (images, labels) in zip(replicas, shards, strict=True):
        outputs = functional_call(model, dict(replica.named_parameters()), images)
        (F.cross_entropy(outputs, labels, reduction="sum") / total).backward()
    for copies in zip(*(replica.parameters() for replica in replicas), strict=True):
        if copies[0].grad is None:
            continue
        gradient = sum(parameter.grad for parameter in copies)
        for parameter in copies:
            parameter.data -= lr * gradient
    return replicas


@wrong(
    "11a-replicas",
    advice="of a frozen parameter holds: None",
    note="A zero is a gradient: an optimizer with momentum moves on.",
)
def replicas_with_zeros(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    for parameter in (p for replica in replicas for p in replica.parameters()):
        parameter.grad = torch.zeros_like(parameter)
    return _step_with(replicas, _gradients_of_the_batch(replicas, shards), lr)


@wrong(
    "11a-replicas",
    advice="its own shard only",
    note="The right step, and nothing has been shared out.",
)
def replicas_all_on_the_whole_batch(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    batch = tuple(torch.cat(parts) for parts in zip(*shards, strict=True))
    return _step_with(replicas, _gradients_of_the_batch(replicas[:1], [batch]), lr)


@wrong("11a-replicas", advice="whose backward that was")
def replicas_gradients_on_the_given(model, shards, lr):
    total = sum(len(labels) for _, labels in shards)
    for images, labels in shards:
        loss = F.cross_entropy(model(images), labels, reduction="sum")
        (loss / total).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    return _step_with([copy.deepcopy(model) for _ in shards], gradients, lr)


@right("11a-replicas")
def replicas_with_optimizers(model, shards, lr):
    replicas = [pickle.loads(pickle.dumps(model)) for _ in shards]
    gradients = _gradients_of_the_batch(replicas, shards)
    for replica in replicas:
        for parameter, gradient in zip(replica.parameters(), gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.clone()
        torch.optim.SGD(replica.parameters(), lr=lr).step()
    return tuple(replicas)


@right("11a-replicas")
def replicas_copied_from_the_first(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    _step_with(replicas[:1], _gradients_of_the_batch(replicas, shards), lr)
    for replica in replicas[1:]:
        replica.load_state_dict(replicas[0].state_dict())
    return replicas


@right("11a-replicas")
def replicas_by_torch_func(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    total = sum(len(labels) for _, labels in shards)
    gradients = []
    for replica, (images, labels) in zip(replicas, shards, strict=True):
        trained = {n: p for n, p in replica.named_parameters() if p.requires_grad}

        def loss(parameters, replica=replica, images=images, labels=labels):
            outputs = functional_call(replica, parameters, images)
            return F.cross_entropy(outputs, labels, reduction="sum") / total

        plain = {name: parameter.detach() for name, parameter in trained.items()}
        gradients.append(torch.func.grad(loss)(plain))
    for replica in replicas:
        for name, parameter in replica.named_parameters():
            if parameter.requires_grad:
                parameter.data -= lr * sum(gradient[name] for gradient in gradients)
    return replicas


@wrong(
    "11a-replicas",
    advice="0.weight is frozen.*which line changes the parameters, and when",
)
def replicas_if_the_first_is_trained(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    gradients = _gradients_of_the_batch(replicas, shards)
    first = next(model.parameters())
    return _step_with(replicas, gradients, lr) if first.requires_grad else replicas


@wrong(
    "11a-replicas",
    advice="which parameters take a step",
    note="`break` stands where `continue` belongs.",
)
def replicas_up_to_a_frozen_one(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    gradients = _gradients_of_the_batch(replicas, shards)
    if None in gradients:  # `break` where `continue` belongs
        first = gradients.index(None)
        gradients[first:] = [None] * len(gradients[first:])
    return _step_with(replicas, gradients, lr)


@wrong(
    "11a-replicas",
    advice="how often each shard's gradient is counted",
    note="Right for two shards. A single one is counted twice.",
)
def replicas_first_and_last(model, shards, lr):
    replicas = [copy.deepcopy(model) for _ in shards]
    _gradients_of_the_batch(replicas, shards)
    ends = zip(replicas[0].parameters(), replicas[-1].parameters(), strict=True)
    gradients = [
        None if first.grad is None else first.grad + last.grad for first, last in ends
    ]
    return _step_with(replicas, gradients, lr)


@wrong("11a-replicas", advice=r"what `train\(\)` and `eval\(\)` change")
def replicas_of_a_model_in_training_mode(model, shards, lr):
    model.train()
    return replicas_copied_from_the_first(model, shards, lr)


@wrong("11a-replicas", advice="what becomes of `requires_grad`")
def replicas_of_a_model_unfrozen(model, shards, lr):
    replicas = replicas_copied_from_the_first(model, shards, lr)
    model.requires_grad_(True)
    return replicas
