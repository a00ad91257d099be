"""Checks of the exercises of lesson 05, Random numbers in parallel."""

import random

import numpy as np
import torch

from sidebyside.exercises import exercise, expect


@exercise("05-shared")
def check_shared(shared):
    def try_out(outputs: list[list[float]], pairs: set, think: str) -> None:
        got = shared([list(numbers) for numbers in outputs])
        tried = f"shared({outputs})" if len(str(outputs)) < 90 else "shared(...)"
        expect(got is not None, tried, got, "what your function returns")
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
    try_out(
        [[0.1, 0.2, 0.3], [0.7, 0.8], [0.2, 0.3, 0.9]],
        {(0, 2)},
        "a worker that began later in the same stream: its first number is another",
    )
    try_out([[], []], set(), "two workers without a number share none")
    try_out([[0.1], [0.5], [0.1]], {(0, 2)}, "workers that are no neighbours")
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
    return [float(value) for value in values]


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


@exercise("05-items", seconds=20)
def check_items(noise_of):
    calls = 0

    def noise(seed: int, epoch: int, items: list[int]) -> list[float]:
        nonlocal calls
        calls += 1
        _disturb(calls)  # no number may depend on the global generators
        return _numbers(noise_of(seed, epoch, list(items)))

    all_items = list(range(12))
    whole = noise(0, 0, all_items)
    tried = "noise_of(0, 0, [0, 1, 2, ..., 11])"
    expect(len(whole) == 12, tried, whole, "one number for each item")
    expect(noise(0, 0, []) == [], "noise_of(0, 0, [])", think="no item, no number")
    expect(all(0 <= number < 1 for number in whole), tried, whole, "numbers in [0, 1)")
    expect(len(set(whole)) == 12, tried, whole, "each item has a number of its own")
    again = noise(0, 0, all_items)
    expect(
        again == whole,
        f"{tried}, twice",
        [whole[0], again[0]],
        "what is the same in the second call, and what is not? A number may depend on "
        "nothing but seed, epoch and item",
    )
    for workers in 2, 3, 5:
        for share in [all_items[worker::workers] for worker in range(workers)]:
            got = noise(0, 0, share)
            expect(
                got == [whole[item] for item in share],
                f"noise_of(0, 0, {share}), a share of the items 0 to 11",
                got,
                "the item's number is another in this share than in the whole. On "
                "what does it depend, beside the item?",
            )
    got = noise(0, 0, all_items[::-1])
    expect(
        got == whole[::-1],
        "noise_of(0, 0, [11, 10, ..., 0])",
        got,
        "the numbers come in the order of the items",
    )

    owner = {}
    for seed in range(5):
        for epoch in range(5):
            for item, number in enumerate(noise(seed, epoch, range(8))):
                other = owner.setdefault(number, (seed, epoch, item))
                expect(
                    other == (seed, epoch, item),
                    f"(seed, epoch, item) = {other} and {(seed, epoch, item)}",
                    f"{number:.6f} for both",
                    "other seed, other epoch or other item: other number. Which of "
                    "the three is lost, and where are they mixed into one?",
                )

    many = np.array(noise(3, 1, range(2000)))
    expect(
        abs(many.mean() - 0.5) < 0.04 and abs(many.std() - 0.2887) < 0.03,
        "the mean and the spread of 2000 items",
        [round(float(many.mean()), 3), round(float(many.std()), 3)],
        "uniform numbers in [0, 1) have the mean 0.5 and the standard deviation 0.289",
    )
    correlation = float(np.corrcoef(many[:-1], many[1:])[0, 1])
    expect(
        abs(correlation) < 0.1,
        "the correlation of neighbouring items",
        round(correlation, 3),
        "the number of an item should say nothing about the next one",
    )


@exercise("05-replicas", seconds=20)
def check_replicas(prepare):
    seeds, ranks = range(4), range(4)
    calls = 0
    touched: list[str] = []

    def call(rank: int, seed: int) -> tuple[tuple, tuple]:
        nonlocal calls, touched
        calls += 1
        _disturb(calls)  # replicas must not be equal by luck
        before = _global_state()
        weights, noise = prepare(rank, seed)
        touched = touched or _moved(before, _global_state())
        return tuple(_numbers(weights)), tuple(_numbers(noise))

    results = {(rank, seed): call(rank, seed) for seed in seeds for rank in ranks}
    first = results[0, 0]
    expect(
        all(len(part) == 4 for part in first),
        "prepare(0, 0)",
        first,
        "two lists of four numbers each",
    )
    expect(
        call(0, 0) == first,
        "prepare(0, 0), twice",
        [first[0][0], call(0, 0)[0][0]],
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

    owner = {}
    for (rank, seed), (_, noise) in results.items():
        for number in noise:
            other = owner.setdefault(number, (rank, seed))
            expect(
                other == (rank, seed),
                f"the noise of (rank, seed) = {other} and {(rank, seed)}",
                f"both contain {number:.6f}",
                "no two ranks have the same noise, nor any two seeds. If you add the "
                "rank to something: which other rank and seed give the same sum?",
            )
    expect(
        len(owner) == 4 * len(results),
        "the noise of one rank",
        results[0, 0][1],
        "four numbers, and no number twice",
    )
    for (_, seed), (weights, _) in results.items():
        expect(
            not owner.keys() & set(weights),
            f"the weights and the noise of all ranks, seed {seed}",
            f"{weights[0]:.6f} is in both",
            "somebody's noise is the weights. Two uses of a seed need two streams",
        )
    expect(
        not touched,
        "prepare(0, 0)",
        f"the global generator of {' and '.join(touched)} has changed",
        "who else draws from it? Dropout does, after you. A generator of your own "
        "harms nobody",
    )
