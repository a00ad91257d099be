"""Checks of the exercises of lesson 05, Random numbers in parallel."""

import random
from collections.abc import Callable

import numpy as np
import torch

from sidebyside import run_ranks
from sidebyside.exercises import exercise, expect


@exercise("05-shared")
def check_shared(shared):
    def try_out(outputs: list[list[float]], pairs: set, think: str) -> None:
        given = [list(numbers) for numbers in outputs]
        got = shared(given)
        tried = f"shared({outputs})" if len(str(outputs)) < 90 else "shared(...)"
        expect(got is not None, tried, got, "what your function returns")
        after = f"the pairs {got}; the lists are now {given}"
        expect(given == outputs, tried, after, "the caller still needs the lists")
        found = [tuple(pair) for pair in got]
        expect(
            all(i < j for i, j in found),
            tried,
            got,
            "in a pair (i, j), i is less than j: each pair of workers once",
        )
        expect(len(found) == len(set(found)), tried, got, "a pair that is there twice")
        expect(set(found) == pairs, tried, got, think)

    try_out([[0.1, 0.2], [0.1, 0.2]], {(0, 1)}, "two workers with equal numbers")
    try_out([[0.1, 0.2], [0.3, 0.4]], set(), "two workers that have nothing in common")
    try_out([], set(), "no worker: which pairs are there?")
    try_out([[0.1], [0.5], [0.1]], {(0, 2)}, "workers that are no neighbours")
    try_out(
        [[0.1, 0.2, 0.3], [0.7, 0.8], [0.2, 0.3, 0.9]],
        {(0, 2)},
        "a worker that began later in the same stream: its first number is another",
    )
    try_out(
        [[0.1, 0.2, 0.3], [0.4, 0.2, 0.5]],
        {(0, 1)},
        "a common number that stands first in neither list",
    )
    try_out([[], []], set(), "two workers without a number share none")
    try_out([[0.2, 0.2], [0.5]], set(), "a number that one worker has twice")
    try_out(
        [[0.1, 0.2], [0.2, 0.3], [0.3, 0.4]],
        {(0, 1), (1, 2)},
        "workers 0 and 2 have no number in common, only the same neighbour",
    )

    dice = random.Random(5)
    for _ in range(50):
        stream = [dice.random() for _ in range(40)]
        outputs = []
        for _ in range(dice.randint(2, 8)):
            start, length = dice.randrange(40), dice.randrange(8)
            outputs.append(stream[start : start + length])
        sets = [set(numbers) for numbers in outputs]
        pairs = {
            (i, j)
            for i in range(len(sets))
            for j in range(i + 1, len(sets))
            if sets[i] & sets[j]
        }
        try_out(outputs, pairs, "which two lists have a number in common?")


def _numbers(values: object) -> list[float]:
    """The numbers of a list, a tuple, an array or a tensor."""
    expect(values is not None, got=values, think="what your function returns")
    return [float(value) for value in values]


def _in_a_new_process(answer: Callable, *args) -> object:
    """What the answer gives to someone with whom it shares neither memory nor hash."""
    return run_ranks(answer, *args, world_size=1, start_method="spawn")[0]


_ELSEWHERE = "another process gets other numbers. On what else do they depend?"


# What people multiply one number by before they add another
_FACTORS = [*range(1, 130), 200, 256, 300, 500, 512, 997, 999, 1000, 1001, 1009, 1013]
_FACTORS += [1024, 10**4, 2**16, 10**5]


def _twins(draw: Callable, size: int) -> list[tuple]:
    """Two places, such as (seed, epoch, item), that draw the same; [] if none is found.

    (0, 0, k) and (0, 1, 0) find k * epoch + item; (1, 1, 11) and (1, 11, 1) find digits
    that are put side by side.
    """
    units = [(0,) * (size - 1 - i) + (1,) + (0,) * i for i in range(size)]
    few = [(0,) * size, *units, *(tuple(1 + 10 * n for n in unit) for unit in units)]
    owner = {}
    for place in few:
        other = owner.setdefault(draw(*place), place)
        if other != place:
            return [other, place]
    for place in [tuple(k * n for n in unit) for k in _FACTORS for unit in units]:
        other = owner.get(draw(*place), place)
        if other != place:
            return [other, place]
    return []


def _disturb(step: int) -> None:
    """Put the global generators into a state that differs from call to call."""
    random.seed(1000 + step)
    np.random.seed(1000 + step)
    torch.manual_seed(1000 + step)


def _global_state() -> tuple:
    name, keys, position, *_ = np.random.get_state()
    return random.getstate(), (name, keys.tobytes(), position), torch.get_rng_state()


def _moved(before: tuple, after: tuple) -> list[str]:
    """The names of the global generators that are not as they were."""
    names = ["random", "np.random"]
    moved = [name for name, b, a in zip(names, before, after, strict=False) if b != a]
    return moved if torch.equal(before[2], after[2]) else [*moved, "torch"]


@exercise("05-items", seconds=30)
def check_items(noise_of):
    calls = 0

    def noise(seed: int, epoch: int, items: list[int]) -> list[float]:
        nonlocal calls
        calls += 1
        _disturb(calls)  # no number may depend on the global generators
        return _numbers(noise_of(seed, epoch, list(items)))

    all_items = list(range(12))
    whole = noise(1, 1, all_items)
    tried = "noise_of(1, 1, [0, 1, 2, ..., 11])"
    expect(len(whole) == 12, tried, whole, "one number for each item")
    expect(noise(1, 1, []) == [], "noise_of(1, 1, [])", think="no item, no number")
    expect(all(0 <= number < 1 for number in whole), tried, whole, "numbers in [0, 1)")
    expect(len(set(whole)) == 12, tried, whole, "each item has a number of its own")
    again = noise(1, 1, all_items)
    expect(
        again == whole,
        f"{tried}, twice",
        [whole[0], again[0]],
        "what is the same in the second call, and what is not? A number may depend on "
        "nothing but seed, epoch and item",
    )
    for workers in 2, 3, 5:
        for share in [all_items[worker::workers] for worker in range(workers)]:
            got = noise(1, 1, share)
            expect(
                got == [whole[item] for item in share],
                f"noise_of(1, 1, {share}), a share of the items 0 to 11",
                got,
                "the item's number is another in this share than in the whole. On "
                "what does it depend, beside the item?",
            )
    got = noise(1, 1, [5, 2, 5, 0])
    expect(
        got == [whole[item] for item in (5, 2, 5, 0)],
        "noise_of(1, 1, [5, 2, 5, 0])",
        got,
        "one number for each entry of items, in their order",
    )

    twins = _twins(lambda seed, epoch, item: noise(seed, epoch, [item])[0], 3)
    expect(
        not twins,
        f"(seed, epoch, item) = {' and '.join(map(str, twins))}",
        "the same number for both",
        "other seed, other epoch or other item: other number. Which of the three is "
        "lost, or where are they mixed into one?",
    )

    many = np.array(noise(3, 1, range(1000)))
    expect(
        abs(many.mean() - 0.5) < 0.05 and abs(many.std() - 0.2887) < 0.03,
        "the mean and the spread of 1000 items",
        [round(float(many.mean()), 3), round(float(many.std()), 3)],
        "uniform numbers in [0, 1) have the mean 0.5 and the standard deviation 0.289",
    )
    correlation = float(np.corrcoef(many[:-1], many[1:])[0, 1])
    expect(
        abs(correlation) < 0.15,
        "the correlation of neighbouring items",
        round(correlation, 3),
        "the number of an item should say nothing about the next one",
    )
    got = _in_a_new_process(lambda: _numbers(noise_of(1, 1, all_items)))
    tried = f"{tried}, here and in a new process"
    expect(got == whole, tried, [whole[0], got[0]], _ELSEWHERE)


@exercise("05-replicas", seconds=30)
def check_replicas(prepare):
    seeds, ranks = range(4), range(4)
    calls = 0
    touched: list[str] = []

    def call(rank: int, seed: int) -> tuple[tuple, tuple]:
        nonlocal calls, touched
        calls += 1
        _disturb(calls)  # replicas must not be equal by luck
        before = _global_state()
        both = prepare(rank, seed)
        two = [] if both is None else list(both)
        touched = touched or _moved(before, _global_state())
        tried, think = f"prepare({rank}, {seed})", "two lists, weights and noise"
        expect(len(two) == 2, tried, both, think)
        return tuple(_numbers(two[0])), tuple(_numbers(two[1]))

    results = {(rank, seed): call(rank, seed) for seed in seeds for rank in ranks}
    first = results[0, 0]
    expect(
        all(len(part) == 4 for part in first),
        "prepare(0, 0)",
        first,
        "two lists of four numbers each",
    )
    again = call(0, 0)
    expect(
        again == first,
        "prepare(0, 0), twice",
        [[part[0] for part in parts] for parts in (first, again)],
        "two calls with the same rank and seed return the same. Which generator did "
        "you not seed?",
    )
    for (rank, seed), (weights, _) in results.items():
        expect(
            weights == results[0, seed][0],
            f"the weights of rank 0 and of rank {rank}, seed {seed}",
            [results[0, seed][0][0], weights[0]],
            "replicas begin with equal weights. What may they depend on?",
        )
    expect(
        len({results[0, seed][0] for seed in seeds}) == len(seeds),
        "the weights for seed 0, 1, 2, 3",
        [results[0, seed][0][0] for seed in seeds],
        "another seed gives other weights",
    )

    twins = _twins(lambda rank, seed: call(rank, seed)[1], 2)
    if twins:
        differ = [n for n, x, y in zip(["rank", "seed"], *twins, strict=True) if x != y]
        expect(
            False,
            f"the noise of (rank, seed) = {twins[0]} and {twins[1]}",
            "the same for both",
            f"does the noise depend on the {differ[0]} at all?"
            if len(differ) == 1
            else "rank and seed become one number or text: which others become the "
            "same one?",
        )
    owner = {}
    for place, (_, noise) in results.items():
        expect(len(set(noise)) == 4, f"prepare{place}", noise, "no number twice")
        for number in noise:
            other = owner.setdefault(number, place)
            expect(
                other == place,
                f"the noise of (rank, seed) = {other} and {place}",
                f"both contain {number:.6f}",
                "one of the two begins later in the same stream",
            )
    for (_, seed), (weights, _) in results.items():
        for number in owner.keys() & set(weights):
            whose = f"the noise of (rank, seed) = {owner[number]}"
            expect(
                False,
                f"the weights of seed {seed} and {whose}",
                f"{number:.6f} is in both",
                "somebody's noise is the weights. Two uses of a seed need two streams",
            )
    for name, other in ("weights", first[0]), ("noise of rank 1", results[1, 0][1]):
        apart = [a - b for a, b in zip(first[1], other, strict=True)]
        expect(
            len({round(step, 5) for step in apart}) > 1,
            f"the noise of rank 0 less the {name}, seed 0",
            apart,
            "who knows the one list knows the other. Each needs a stream of its own",
        )
    got = _in_a_new_process(lambda: [_numbers(part) for part in prepare(1, 1)])
    expect(
        tuple(map(tuple, got)) == results[1, 1],
        "prepare(1, 1), here and in a new process",
        [[part[0] for part in parts] for parts in (results[1, 1], got)],
        _ELSEWHERE,
    )
    expect(
        not touched,
        "prepare(0, 0)",
        f"the global generator of {' and '.join(touched)} has changed",
        "who else draws from it? Dropout does, after you. A generator of your own "
        "harms nobody",
    )
