"""Answers to the exercises of lesson 05 that people give, and that are not right."""

import hashlib
import itertools
import random

import numpy as np
import torch

from lessons.source.sample_answers import right, wrong

# 05-shared


def _pairs(outputs, share):
    """The pairs of workers for whose lists `share` is true."""
    pairs = itertools.combinations(range(len(outputs)), 2)
    return [(i, j) for i, j in pairs if share(outputs[i], outputs[j])]


def _in_common(one, other):
    return set(one) & set(other)


@wrong(
    "05-shared",
    advice="began later in the same stream",
    note="They compare what stands first, and miss a worker that is one draw behind.",
)
def compares_first_numbers(outputs):
    return _pairs(outputs, lambda one, other: one[:1] == other[:1])


@wrong(
    "05-shared",
    advice="no neighbours",
    note="They write one loop instead of two: only workers with adjacent numbers meet.",
)
def compares_neighbours(outputs):
    return [(i, j) for i, j in _pairs(outputs, _in_common) if j == i + 1]


@wrong(
    "05-shared",
    advice="is it there once, with i less than j",
    note="They let both loops go over all workers, which gives (0, 2) and (2, 0).",
)
def returns_each_pair_twice(outputs):
    found = _pairs(outputs, _in_common)
    return found + [(j, i) for i, j in found]


@wrong(
    "05-shared",
    advice="stands first in neither list",
    note="They think that one of the two begins later. Both may have skipped some.",
)
def looks_for_first_numbers(outputs):
    return _pairs(outputs, lambda one, other: one[0] in other or other[0] in one)


@wrong(
    "05-shared",
    advice="three workers with one stream",
    note="They find (0, 1) and (0, 2), and forget (1, 2).",
)
def keeps_the_first_owner(outputs):
    owner, pairs = {}, set()
    for worker, numbers in enumerate(outputs):
        for number in numbers:
            first = owner.setdefault(number, worker)
            if first != worker:
                pairs.add((first, worker))
    return sorted(pairs)


@wrong(
    "05-shared",
    advice="only the same neighbour",
    note="They put workers into groups, as if sharing were passed on.",
)
def joins_groups(outputs):
    groups = []
    for worker, numbers in enumerate(outputs):
        meets = [g for g in groups if any(_in_common(numbers, outputs[w]) for w in g)]
        groups = [g for g in groups if g not in meets]
        groups.append(sorted(sum(meets, [worker])))
    return [pair for g in groups for pair in itertools.combinations(g, 2)]


@right("05-shared")
def all_owners_of_a_number(outputs):
    owners, pairs = {}, set()
    for worker, numbers in enumerate(outputs):
        for number in numbers:
            owners.setdefault(number, {})[worker] = True
    for workers in owners.values():
        pairs |= set(itertools.combinations(workers, 2))
    return pairs


@right("05-shared")
def in_numpy(outputs):
    pairs = np.argwhere(np.triu(np.ones((len(outputs), len(outputs))), 1))
    return [[i, j] for i, j in pairs if np.isin(outputs[i], outputs[j]).any()]


# 05-items


@wrong(
    "05-items",
    advice="another in this share",
    note="They make one stream for the share: a number depends on those before it.",
)
def one_stream_per_share(seed, epoch, items):
    return np.random.default_rng([seed, epoch]).random(len(items)).tolist()


@wrong(
    "05-items",
    advice="mixed into one",
    note="They add the three: item 1 of epoch 0 is item 0 of epoch 1. A sum is no key.",
)
def adds_the_three(seed, epoch, items):
    return [np.random.default_rng(seed + epoch + item).random() for item in items]


@wrong(
    "05-items",
    advice="which of the three is lost",
    note="They forget the epoch, so that the augmentation repeats.",
)
def forgets_the_epoch(seed, epoch, items):
    return [np.random.default_rng([seed, item]).random() for item in items]


@wrong(
    "05-items",
    advice="besides seed, epoch and item",
    note="They make generators that are independent, and never the same again.",
)
def does_not_seed(seed, epoch, items):
    return [np.random.default_rng().random() for _ in items]


@wrong(
    "05-items",
    advice="a number of its own",
    note="They make a new generator for each item, all with the same key.",
)
def same_for_all_items(seed, epoch, items):
    return [np.random.default_rng([seed, epoch]).random() for _ in items]


@wrong(
    "05-items",
    advice="another process, which gets other numbers",
    note="They overlook that Python hashes a text differently at each start.",
)
def hashes_a_text(seed, epoch, items):
    texts = [f"{seed}/{epoch}/{item}" for item in items]
    return [random.Random(hash(text)).random() for text in texts]


@right("05-items")
def seeds_with_a_text(seed, epoch, items):
    return [random.Random(f"{seed}/{epoch}/{item}").random() for item in items]


@right("05-items")
def digests_a_text(seed, epoch, items):
    texts = [f"{seed} {epoch} {item}".encode() for item in items]
    digests = [hashlib.sha256(text).digest() for text in texts]
    return [int.from_bytes(digest[:6], "big") / 2**48 for digest in digests]


# 05-replicas


@wrong(
    "05-replicas",
    advice="the noise that is somebody's weights",
    note="They use one key twice, and rank 0 gets its numbers twice: nearly everyone.",
)
def noise_of_rank_0_is_the_weights(rank, seed):
    weights = np.random.default_rng([seed, 0]).random(4)
    return weights.tolist(), np.random.default_rng([seed, rank]).random(4).tolist()


@wrong(
    "05-replicas",
    advice="equal in all replicas",
    note="They seed the program with seed + rank, once, at the top.",
)
def seed_plus_rank_for_both(rank, seed):
    stream = np.random.default_rng(seed + rank)
    return stream.random(4).tolist(), stream.random(4).tolist()


@wrong(
    "05-replicas",
    advice="what becomes of the rank",
    note="They take one seed for everything: all ranks augment alike.",
)
def same_for_all_ranks(rank, seed):
    stream = np.random.default_rng(seed)
    return stream.random(4).tolist(), stream.random(4).tolist()


@wrong(
    "05-replicas",
    advice="which others become the same",
    note="They overlook that rank 1 of seed 0 is rank 0 of seed 1.",
)
def noise_from_seed_plus_rank(rank, seed):
    weights = np.random.default_rng([seed, 2**31]).random(4)
    return weights.tolist(), np.random.default_rng(seed + rank).random(4).tolist()


@wrong(
    "05-replicas",
    advice="a generator without a seed",
    note="They leave the noise without a seed: it trains well and cannot be repeated.",
)
def noise_is_not_seeded(rank, seed):
    weights = np.random.default_rng(seed).random(4)
    return weights.tolist(), np.random.default_rng().random(4).tolist()


@wrong(
    "05-replicas",
    advice="global generator of torch has changed",
    note="They call manual_seed, and dropout continues with the noise's stream.",
)
def seeds_the_global_generators(rank, seed):
    torch.manual_seed(seed)
    weights = torch.rand(4)
    torch.manual_seed(int(np.random.SeedSequence([seed, 7, rank]).generate_state(1)[0]))
    return weights, torch.rand(4)


@right("05-replicas")
def children_of_one_seed(rank, seed):
    weights, noise = np.random.SeedSequence(seed).spawn(2)
    own = noise.spawn(rank + 1)[rank]
    return [np.random.default_rng(one).random(4) for one in (weights, own)]


@right("05-replicas")
def restores_what_it_seeds(rank, seed):
    with torch.random.fork_rng():
        torch.manual_seed(hash((seed, -1)))
        weights = torch.rand(4)
        torch.manual_seed(hash((seed, rank)))
        return weights, torch.rand(4)
