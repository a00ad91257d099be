"""Checks of the exercises of lesson 05, Random numbers in parallel."""

import itertools
import pickle
import random
from collections.abc import Callable, Iterable

import numpy as np
import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.expectations import Expect
from sidebyside.ranks.by_value import packed_answer
from sidebyside.ranks.launch import call_in_processes

SHARED = [
    ([[0.1, 0.2], [0.1, 0.2]], {(0, 1)}, "two workers with equal numbers"),
    ([[0.4, 0.2], [0.3, 0.1]], set(), "two workers that have nothing in common"),
    ([[0.1], [0.5], [0.1]], {(0, 2)}, "workers that are no neighbours"),
    (
        [[0.1, 0.2, 0.3], [0.7, 0.8], [0.2, 0.3, 0.9]],
        {(0, 2)},
        "a worker that began later in the same stream: which number is its first?",
    ),
    (
        [[0.1, 0.2, 0.3], [0.4, 0.2, 0.5]],
        {(0, 1)},
        "a common number that stands first in neither list",
    ),
    ([[0.6]] * 3, {(0, 1), (0, 2), (1, 2)}, "three workers with one stream"),
    (
        [[0.1, 0.2], [0.2, 0.3], [0.3, 0.4]],
        {(0, 1), (1, 2)},
        "workers 0 and 2: a number in common, or only the same neighbour?",
    ),
]


@exercise("05-shared")
def check_05_shared(shared):
    dice, more = random.Random(5), []
    for workers in [2, 3, 5, 12] * 5:
        stream = [n / 1000 for n in dice.sample(range(1000), 5 * workers)]
        starts = [dice.randrange(len(stream)) for _ in range(workers)]
        outputs = [stream[start : start + dice.randint(1, 4)] for start in starts]
        every = itertools.combinations(range(workers), 2)
        pairs = {(i, j) for i, j in every if {*outputs[i]} & {*outputs[j]}}
        think = "which lists have a number in common, and which workers are they?"
        more.append((outputs, pairs, think))
    for outputs, pairs, think in SHARED + more:
        given = [[number + 0.0 for number in numbers] for numbers in outputs]
        with trying(f"shared({outputs})", given) as expect:  # of new objects
            got = shared(given)
            form = isinstance(got, list | tuple | set)
            form = form and all(
                isinstance(p, tuple | list) and len(p) == 2 for p in got
            )
            expect(form, got=got, think="what is returned: a list of pairs (i, j)")
            found = [tuple(pair) for pair in got]
            once = "each pair of workers (i, j): is it there once, with i less than j?"
            ordered = all(i < j for i, j in found) and len(found) == len(set(found))
            expect(ordered, got=got, think=once)
            missing, extra = sorted(pairs - {*found}), sorted({*found} - pairs)
            told = f"{got}; missing: {missing}, too many: {extra}"
            expect(not missing + extra, got=told, think=think)


def _in_new_process(answer: Callable, *args: object) -> object:
    """What the answer returns where neither memory nor the hash of a text is shared."""
    sent = packed_answer(answer)

    def call(args: tuple) -> object:  # sent by value: it imports nothing here
        return pickle.loads(sent)(*args)

    name = "the new process"
    [result] = call_in_processes(call, [(args,)], start_method="spawn", name=name)
    return result


_ELSEWHERE = "another process, which gets other numbers: on what else do they depend?"
_WHAT_ELSE = (
    "what the numbers depend on besides {}: a generator without a seed, a clock?"
)


def _numbers(expect: Expect, values: Iterable) -> list[float]:
    """The numbers of a list, a tuple, an array or a tensor; they are in [0, 1)."""
    expect(hasattr(values, "__len__"), got=values, think="the form: a list of numbers")
    numbers = [float(value) for value in values]
    inside = all(0 <= number < 1 for number in numbers)
    expect(inside, got=values, think="numbers in [0, 1)")
    return numbers


@exercise("05-items", seconds=30)
def check_05_items(noise_of):
    def draw(seed: int, epoch: int, items: list[int]) -> list[float]:
        with trying(f"noise_of({seed}, {epoch}, {items})", items) as expect:
            got = noise_of(seed, epoch, items)
            think = "one number for each entry of items"
            numbers = _numbers(expect, got)
            expect(len(numbers) == len(items), got=got, think=think)
            return numbers

    twelve = list(range(12))
    for seed, epoch in (1, 1), (2026, 7):
        whole = draw(seed, epoch, twelve)
        with trying(f"noise_of({seed}, {epoch}, range(12)), twice") as expect:
            again = draw(seed, epoch, twelve)
            think = _WHAT_ELSE.format("seed, epoch and item")
            expect(again == whole, got=again, think=think)
            own = "a number of its own for each item: is yours rounded, or shared?"
            expect(len(set(whole)) == 12, got=whole, think=own)
        for items in [*(twelve[n::w] for w in (2, 3) for n in range(w)), [5, 2, 0]]:
            with trying(f"noise_of({seed}, {epoch}, {items})") as expect:
                got, right = draw(seed, epoch, items), [whole[item] for item in items]
                think = "the item's number, which is another in this share than in the "
                think += "whole: on what does it depend besides the item?"
                if sorted(got) == sorted(right):
                    think = "the order, that of `items`: the right numbers, elsewhere"
                tell = f"{got}; among the items 0 to 11 they had {right}"
                expect(got == right, got=tell, think=think)
    _expect_no_two_alike(draw)
    with trying("noise_of(2026, 7, [7, 3]), here and in a new process") as expect:
        there = _numbers(expect, _in_new_process(noise_of, seed, epoch, [7, 3]))
        both = [[whole[7], whole[3]], there]
        expect(both[0] == both[1], got=both, think=_ELSEWHERE)


def _expect_no_two_alike(draw: Callable) -> None:
    """Small places, for sums and for digits put side by side; and some large items."""
    places = list(itertools.product((0, 1, 2, 11), repeat=3))
    places += [(0, 0, item) for item in (100, 1000, 1024, 10_000, 65_536)]
    owner = {}
    for seed, epoch, item in places:
        [number] = draw(seed, epoch, [item])
        other = owner.setdefault(number, (seed, epoch, item))
        tried = f"(seed, epoch, item) = {other} and {(seed, epoch, item)}"
        with trying(tried) as expect:
            think = "seed, epoch and item: which of the three is lost, or where are "
            think += "they mixed into one?"
            alike = other != (seed, epoch, item)
            expect(not alike, got="the same number for both", think=think)


@exercise("05-replicas", seconds=30)
def check_05_replicas(prepare):
    def draw(rank: int, seed: int) -> tuple:
        with trying(f"prepare({rank}, {seed})") as expect:
            return _weights_and_noise(expect, prepare(rank, seed))

    before = _states_of_global_generators()
    ranks, seeds = (*range(8), 100), (0, 1, 2, 7, 11)
    found = {place: draw(*place) for place in itertools.product(ranks, seeds)}
    after = _states_of_global_generators()
    with trying("prepare(3, 7), twice") as expect:
        both = [found[3, 7], draw(3, 7)]
        think = _WHAT_ELSE.format("rank and seed")
        expect(both[0] == both[1], got=both, think=think)
    for (rank, seed), (weights, _) in found.items():
        with trying(f"the weights of rank 0 and of rank {rank}, seed {seed}") as expect:
            both = [found[0, seed][0], weights]
            think = "the weights, equal in all replicas: what may they depend on?"
            expect(both[0] == both[1], got=both, think=think)
    _expect_streams_of_their_own(found)
    with trying("the global generators, before prepare and after it") as expect:
        moved = [name for name in after if after[name] != before[name]]
        think = "who else draws from it? Dropout does, after you. A generator of your "
        think += "own harms nobody"
        got = f"the global generator of {' and '.join(moved)} has changed"
        expect(not moved, got=got, think=think)
    with trying("prepare(100, 2), here and in a new process") as expect:
        there = _weights_and_noise(expect, _in_new_process(prepare, 100, 2))
        both = [found[100, 2], there]
        expect(both[0] == both[1], got=both, think=_ELSEWHERE)


def _states_of_global_generators() -> dict[str, bytes]:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state().numpy()
    names = "random", "np.random", "torch"
    return dict(zip(names, map(pickle.dumps, states), strict=True))


def _weights_and_noise(expect: Expect, both: object) -> tuple[list, list]:
    two = hasattr(both, "__len__") and len(both) == 2
    expect(two, got=both, think="the form: two lists, weights and noise")
    weights, noise = (_numbers(expect, part) for part in both)
    four = len(weights) == len(noise) == 4
    expect(four, got=both, think="the size: two lists of four numbers each")
    own = len(set(weights)) == len(set(noise)) == 4
    expect(own, got=both, think="a number that is there twice: four draws, or one?")
    return weights, noise


def _expect_streams_of_their_own(found: dict) -> None:
    """For the weights of each seed, and for the noise of each rank and seed."""
    lists = {("weights", 0, seed): w for (_, seed), (w, _) in found.items()}
    lists |= {("noise", *place): noise for place, (_, noise) in found.items()}
    owner = {}
    for name, numbers in lists.items():
        for number in numbers:
            other = owner.setdefault(number, name)
            words = ["the {} of rank {}, seed {}".format(*n) for n in (other, name)]
            with trying("; ".join(words)) as expect:
                got = f"both contain {number:.6f}"
                expect(other == name, got=got, think=_why_alike(other, name))


def _why_alike(one: tuple, other: tuple) -> str:
    if one[0] != other[0]:
        return (
            "the noise that is somebody's weights: what do rank and seed become for "
            "each?"
        )
    if one[1] == other[1]:
        return f"another seed, for other {one[0]}: what becomes of the seed in yours?"
    if one[2] == other[2]:
        return "what becomes of the rank in the noise?"
    return "the number or text that rank and seed become: which others become the same?"
