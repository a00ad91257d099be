"""Checks of the exercises of lesson 05, Random numbers in parallel."""

import contextlib
import itertools
import operator
import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from sidebyside.by_value import packed_answer
from sidebyside.exercises import exercise, trying
from sidebyside.expectations import Attempts, Expect
from sidebyside.ranks import call_in_processes

SHARED = [
    ([[0.1, 0.2], [0.1, 0.2]], {(0, 1)}, "two workers with equal numbers"),
    ([[0.4, 0.2], [0.3, 0.1]], set(), "two workers that have nothing in common"),
    ([], set(), "no worker: which pairs are there?"),
    ([[0.1], [0.1]], {(0, 1)}, "two workers with one number each"),
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
    ([[], []], set(), "two workers without a number, who share none"),
    ([[], [0.1], [0.1]], {(1, 2)}, "a worker without a number: who comes after it?"),
    ([[0.2, 0.2], [0.5]], set(), "a number that one worker has twice"),
    ([[0.3, 0.0], [0.0]], {(0, 1)}, "0.0, which is a number like the others"),
    ([[0.5], [0.5 + 2**-53]], set(), "two numbers that differ in the last digit"),
    ([[0.6]] * 3, {(0, 1), (0, 2), (1, 2)}, "three workers with one stream"),
    (
        [[0.1, 0.2], [0.2, 0.3], [0.3, 0.4]],
        {(0, 1), (1, 2)},
        "workers 0 and 2: a number in common, or only the same neighbour?",
    ),
]


@exercise("05-shared")
def check_05_shared(shared):
    attempt = Attempts(shared)
    for outputs, pairs, think in SHARED:
        tried = f"shared({outputs})"
        attempt(_expect_pairs_that_shared, tried, outputs, pairs, think)
    stream = [n / 2**12 for n in range(2**12)]
    long = [stream[:1500], stream[2000:3500], [*stream[3500:], stream[1499]]]
    tried = "shared of three lists with 1500, 1500 and 597 numbers"
    think = "a common number that stands last: how far do you look?"
    attempt(_expect_pairs_that_shared, tried, long, {(0, 2)}, think)
    dice = random.Random(5)
    for workers in [2, 3, 5, 12] * 15:
        stream = [round(0.001 * n, 3) for n in dice.sample(range(1000), 5 * workers)]
        starts = [dice.randrange(len(stream)) for _ in range(workers)]
        outputs = [stream[start : start + dice.randrange(5)] for start in starts]
        sets = [set(numbers) for numbers in outputs]
        every = itertools.combinations(range(workers), 2)
        pairs = {(i, j) for i, j in every if sets[i] & sets[j]}
        think = "which lists have a number in common, and which workers are they?"
        attempt(_expect_pairs_that_shared, f"shared({outputs})", outputs, pairs, think)


def _expect_pairs_that_shared(
    shared: Callable, tried: str, outputs: list, pairs: set, think: str
) -> None:
    given = [[number + 0.0 for number in numbers] for numbers in outputs]  # new objects
    with trying(tried, given) as expect:
        got = shared(given)
        expect(got is not None, got=got, think="what your function returns")
        found = [tuple(pair) for pair in got]
        once = "each pair of workers (i, j): is it there once, with i less than j?"
        expect(all(i < j for i, j in found), got=got, think=once)
        twice = "a pair that is there twice"
        expect(len(found) == len(set(found)), got=got, think=twice)
        expect(set(found) == pairs, got=got, think=think)


class _DisturbedGenerators:
    """The answer, before each call of which the world changes.

    The clock and the states of the global generators are others every time, so that
    what depends on them differs; each generator holds a normal number ready, for they
    make two at a time. `moved` are the generators that have been drawn from.
    """

    def __init__(self, answer: Callable):
        self.answer, self.calls, self.moved = answer, 0, ()

    def __call__(self, *args):
        self.calls += 1
        for seed in random.seed, np.random.seed, torch.manual_seed:
            seed(1000 + self.calls)
        random.gauss(), np.random.normal(), torch.randn(1)
        before = _states_of_global_generators()
        with patch("time.time", lambda: 1e6 * self.calls):
            got = self.answer(*args)
        after = _states_of_global_generators()
        self.moved = self.moved or [n for n in after if after[n] != before[n]]
        return got


def _states_of_global_generators() -> dict:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state().numpy()
    names = "random", "np.random", "torch"
    return dict(zip(names, map(pickle.dumps, states), strict=True))


def _draws_in_new_process(answer: Callable) -> Callable:
    """The answer with what it remembers now, for a process where nothing is shared.

    Neither memory nor the hash of a text nor the order of calls is the same there.
    """
    sent = packed_answer(answer)

    def call_in_turn(calls: tuple) -> list:  # sent by value: it imports nothing here
        answer = pickle.loads(sent)
        return [answer(*args) for args in calls]

    return lambda *calls: call_in_processes(
        call_in_turn, [(calls,)], start_method="spawn", name="the new process"
    )[0]


_ELSEWHERE = "another process, which gets other numbers: on what else do they depend?"
_WHAT_ELSE = (
    "what the numbers depend on besides {}: a generator without a seed, a clock?"
)


def _random_numbers(expect: Expect, values: Iterable) -> list[float]:
    """The numbers of a list, a tuple, an array or a tensor; they are in [0, 1)."""
    expect(values is not None, got=values, think="what your function returns")
    is_list = hasattr(values, "__len__") and hasattr(values, "__getitem__")
    expect(is_list, got=values, think="the form: a list of numbers")
    values = list(values)
    numbers = all(hasattr(value, "__float__") for value in values)
    expect(numbers, got=values, think="what is in the list: is each entry a number?")
    outside = [value for value in values if not 0 <= float(value) < 1]
    got = outside and f"numbers, and {outside[0]} is one of them"
    expect(not outside, got=got, think="numbers in [0, 1)")
    return [float(value) for value in values]


def _clash_of_streams(lists: dict, by_chance: int = 0) -> tuple | None:
    """Two of these lists that have a number in common, and this number.

    So many times it may be chance: of 24 bits, some of many numbers can be equal.
    """
    owner, clashes = {}, []
    for name, numbers in lists.items():
        for number in numbers:
            if (other := owner.setdefault(number, name)) != name:
                clashes.append((other, name, number))
    return clashes[0] if len(clashes) > by_chance else None


def _stream_tells_of_other(first: list, second: list, limit: float) -> bool:
    """Whether who knows the one list knows much of the other: moved, or stretched."""
    first, second = np.array(first), np.array(second)
    steps = set(np.round((second - first) % 1, 6) % 1)
    related = abs(np.corrcoef(first, second)[0, 1]) > limit
    return related or len(steps) < len(first) / 2


class _TellingSeed(int):
    """A whole number that notes what is computed from it."""

    results = set()  # noqa: RUF012


def _noted_seed(name: str) -> Callable:
    def compute(self, other):
        result = getattr(int, name)(self, other)
        if result is NotImplemented:
            return result
        _TellingSeed.results.add(result)
        return _TellingSeed(result)

    return compute


for _name in "add", "radd", "mul", "rmul", "lshift", "or", "ror", "xor", "rxor":
    setattr(_TellingSeed, f"__{_name}__", _noted_seed(f"__{_name}__"))


def _seeds_easily_mixed_up(call: Callable, *below: int) -> list[tuple]:
    """Places, such as (seed, epoch, item), of which two are easily mixed up.

    Small ones, for sums and for digits put side by side, then (0, 1, 1000), for digits
    with zeros before them; and (0, 0, k) and (0, 1, 0), which k * epoch + item takes
    for one. Of k we try what people like, and what a one becomes in the answer's own
    arithmetic, and large neighbours. All stay `below` what is allowed.
    """
    small = list(itertools.product((0, 1, 2, 11), repeat=len(below)))
    units = [place for place in small if sum(place) == 1]
    _TellingSeed.results.clear()
    for unit in units:
        call(*map(_TellingSeed, unit))
    own = sorted(k for k in _TellingSeed.results if k > 1)[:100]
    tens = [10**n for n in range(1, 10)]
    popular = [2**n for n in range(2, 32)] + tens
    popular += [2**24 + 1, 4 * 10**9, 4 * 10**9 + 1, 2**32 - 2, 2**32 - 1]
    large = [tuple(k * n for n in u) for k in sorted(own + popular) for u in units]
    for ten, one, other in itertools.product(tens, units, units):
        if one != other:  # 1 and 1000, as 11 and 000
            large.append(tuple(ten * a + b for a, b in zip(one, other, strict=True)))
    return small + [p for p in large if all(map(operator.lt, p, below))]


@exercise(
    "05-items",
    seconds=30,
    when_hung="how long does it take to get at item 1,000,000,000 alone?",
)
def check_05_items(noise_of):
    in_a_new_process = _draws_in_new_process(noise_of)
    noise_of = _DisturbedGenerators(noise_of)
    for seed, epoch in (1, 1), (0, 0), (3, 2), (2026, 7):
        whole = _expect_noise_for_each_item(noise_of, seed, epoch)
        _expect_same_noise_in_each_share(noise_of, seed, epoch, whole)
    _expect_noise_of_last_item_alone(noise_of)
    _expect_random_noise(noise_of)
    _expect_noise_of_many_items(noise_of)
    _expect_no_two_items_alike(noise_of)
    with trying("noise_of(2026, 7, [7, 3]), here and in a new process") as expect:
        _, there = in_a_new_process((5, 2, [4]), (seed, epoch, [7, 3]))
        both = [[whole[7], whole[3]], _random_numbers(expect, there)]
        expect(both[0] == both[1], got=both, think=_ELSEWHERE)


def _expect_noise_for_each_item(
    noise_of: Callable, seed: int, epoch: int
) -> list[float]:
    """The numbers of the items 0 to 11."""
    items = list(range(12))
    with trying(f"noise_of({seed}, {epoch}, [])") as expect:
        got = _random_numbers(expect, noise_of(seed, epoch, []))
        expect(got == [], got=got, think="no item: how many numbers?")
    with trying(f"noise_of({seed}, {epoch}, {items})", items) as expect:
        whole = _random_numbers(expect, noise_of(seed, epoch, items))
        expect(len(whole) == 12, got=whole, think="one number for each item")
        own = "a number of its own for each item: from what does yours follow?"
        expect(len(set(whole)) > 9, got=whole, think=own)  # more is judged by thousands
    with trying(f"noise_of({seed}, {epoch}, {items}), twice") as expect:
        again = _random_numbers(expect, noise_of(seed, epoch, items))
        both = zip(items, whole, again, strict=False)
        other = next((three for three in both if three[1] != three[2]), None)
        got = "for item {}, first {} and then {}".format(*other) if other else again
        think = _WHAT_ELSE.format("seed, epoch and item")
        expect(again == whole, got=got, think=think)
    return whole


def _expect_same_noise_in_each_share(
    noise_of: Callable, seed: int, epoch: int, whole: list[float]
) -> None:
    each = "one number for each entry of items, in their order"
    of_all = "the item's number, which is another in this share than in the whole: on "
    of_all += "what does it depend besides the item?"
    twelve = list(range(12))
    shares = [twelve[n::w] for w in (2, 3, 5, 8) for n in range(w)]
    shares += [twelve[5:10], twelve[10:]]
    cases = [(share, of_all) for share in shares]
    for items, think in [*cases, ([11, 2, 0, 7], each), ([5, 2, 5, 0], each)]:
        with trying(f"noise_of({seed}, {epoch}, {items})", items) as expect:
            got = _random_numbers(expect, noise_of(seed, epoch, items))
            right = [whole[item] for item in items]
            tell = f"{got}; among the items 0 to 11 they had {right}"
            expect(got == right, got=tell, think=think)


def _expect_noise_of_last_item_alone(noise_of: Callable) -> None:
    with trying("noise_of(1, 1, [4294967295])") as expect, _little_memory():
        try:
            got = _random_numbers(expect, noise_of(1, 1, [2**32 - 1]))
        except MemoryError:
            think = "how many numbers it takes to get at item 4,294,967,295 alone"
            expect(False, got="a MemoryError, and no number", think=think)
        expect(len(got) == 1, got=got, think="one number for each item")


@contextlib.contextmanager
def _little_memory(gib: int = 4) -> Iterator[None]:
    """No more than that besides what is in use, where the system can limit it."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        yield
        return
    soft, hard = before = resource.getrlimit(resource.RLIMIT_AS)
    limits = [pages * resource.getpagesize() + gib * 2**30, soft, hard]
    least = min(limit for limit in limits if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (least, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _expect_noise_of_many_items(noise_of: Callable) -> None:
    """The differences of these items are all numbers up to 25 million.

    So two of them are alike for whoever takes an item modulo any number of millions,
    and for whoever draws one of a few million numbers. One pair may be chance.
    """
    items = [*range(5000), *range(5000, 25_000_000, 5000)]
    tried = "noise_of(1, 1, items), the items 0 to 4999 and each 5000th up to 24995000"
    with trying(tried) as expect:
        numbers = _random_numbers(expect, noise_of(1, 1, items))
        expect(
            len(numbers) == len(items), got=numbers, think="one number for each item"
        )
        different, first = len(set(numbers)), {}
        pairs = zip(items, numbers, strict=True)
        alike = [(first.setdefault(number, i), i) for i, number in pairs]
        alike = [(i, j) for i, j in alike if i != j]
        got = f"{different:,} different numbers for {len(items):,} items"
        if alike:
            got += "; the items {} and {} have the same".format(*alike[0])
        think = "how many different numbers your function can return, and how many "
        think += "different streams it has, for 4,294,967,296 items"
        expect(different >= len(items) - 1, got=got, think=think)


def _expect_random_noise(noise_of: Callable) -> None:
    here = np.array(noise_of(3, 1, list(range(1000))))
    with trying("the mean and the spread of noise_of(3, 1, range(1000))") as expect:
        spread = [round(float(here.mean()), 3), round(float(here.std()), 3)]
        usual = abs(here.mean() - 0.5) < 0.05 and abs(here.std() - 0.2887) < 0.03
        think = "uniform numbers in [0, 1): their mean is 0.5, their spread 0.289"
        expect(usual, got=spread, think=think)
    with trying("noise_of(3, 1, range(1000)), each number in binary") as expect:
        bits = next(n for n in range(54) if not (here * 2**n % 1).any() or n == 53)
        expect(
            bits >= 32,
            got=f"never more than {bits} bits after the point",
            think=f"how many numbers there are: {2**bits:,}, for 4,294,967,296 items",
        )
    epoch, seed = (noise_of(*place, list(range(999))) for place in ((3, 2), (4, 1)))
    others = {"next item": here[1:], "next epoch": epoch, "next seed": seed}
    for name, numbers in others.items():
        with trying(f"the numbers of 999 items, beside those of the {name}") as expect:
            if not np.array_equal(here[:999], numbers):  # that is found below
                got = [[float(n) for n in many[:4]] for many in (here, numbers)]
                expect(
                    not _stream_tells_of_other(here[:999], numbers, 0.15),
                    got=got,
                    think="what does a number of the one list tell about the other?",
                )


def _expect_no_two_items_alike(noise_of: Callable) -> None:
    def draw(seed: int, epoch: int, item: int) -> list[float]:
        with trying(f"noise_of({seed}, {epoch}, [{item}])") as expect:
            return _random_numbers(expect, noise_of(seed, epoch, [item]))

    below = 2**32, 2**32, 2**32
    if clash := _clash_of_streams(
        {place: draw(*place) for place in _seeds_easily_mixed_up(draw, *below)}
    ):
        with trying(f"(seed, epoch, item) = {clash[0]} and {clash[1]}") as expect:
            think = "seed, epoch and item: which of the three is lost, or where are "
            think += "they mixed into one?"
            expect(False, got="the same number for both", think=think)


@exercise("05-replicas", seconds=30)
def check_05_replicas(prepare):
    in_a_new_process = _draws_in_new_process(prepare)
    prepare = _DisturbedGenerators(prepare)

    def draw(rank: int, seed: int) -> tuple:
        with trying(f"prepare({rank}, {seed})") as expect:
            return _weights_and_noise(expect, prepare(rank, seed))

    found = {
        (rank, seed): draw(rank, seed) for seed in (0, 1, 2, 7) for rank in range(8)
    }
    _expect_same_streams_again(found, draw)
    _expect_streams_of_their_own(found)
    large = {
        place: draw(*place) for place in _seeds_easily_mixed_up(draw, 10_000, 2**32)
    }
    large |= {(9_999, seed): draw(9_999, seed) for seed in (0, 1)}  # the last rank's
    _expect_streams_of_their_own(found | large)
    with trying("the global generators, before prepare and after it") as expect:
        moved = f"the global generator of {' and '.join(prepare.moved)} has changed"
        think = "who else draws from it? Dropout does, after you. A generator of your "
        think += "own harms nobody"
        expect(not prepare.moved, got=moved, think=think)
    with trying("prepare(5, 2), here and in a new process") as expect:
        there = _weights_and_noise(expect, in_a_new_process((3, 9), (5, 2))[1])
        expect(there == found[5, 2], got=[found[5, 2], there], think=_ELSEWHERE)
    _expect_lists_that_may_be_changed(prepare, found)


def _weights_and_noise(expect: Expect, both: object) -> tuple[list, list]:
    two = [] if both is None else list(both)
    expect(len(two) == 2, got=both, think="the form: two lists, weights and noise")
    weights, noise = (_random_numbers(expect, part) for part in two)
    four = len(weights) == len(noise) == 4
    expect(four, got=both, think="the size: two lists of four numbers each")
    own = len(set(weights)) == len(set(noise)) == 4
    expect(own, got=both, think="a number that is there twice: four draws, or one?")
    return weights, noise


def _expect_same_streams_again(found: dict, draw: Callable) -> None:
    for place in (0, 0), (3, 7):
        with trying(f"prepare{place}, twice") as expect:
            both = [found[place], draw(*place)]
            think = _WHAT_ELSE.format("rank and seed")
            expect(both[0] == both[1], got=both, think=think)
    for (rank, seed), (weights, _) in found.items():
        with trying(f"the weights of rank 0 and of rank {rank}, seed {seed}") as expect:
            both = [found[0, seed][0], weights]
            think = "replicas begin with equal weights. What may they depend on?"
            expect(both[0] == both[1], got=both, think=think)


def _expect_lists_that_may_be_changed(prepare: Callable, found: dict) -> None:
    tried = "prepare(0, 0), then adding 1 to each number, then prepare(0, 0) again"
    with trying(tried) as expect:
        for numbers in prepare(0, 0):
            with contextlib.suppress(TypeError, ValueError):  # a tuple cannot change
                for place in range(4):
                    numbers[place] += 1
        both = prepare(0, 0)
        again = tuple([float(number) for number in part] for part in both)
        think = "the lists that you return: who else has them, and may change them?"
        expect(again == found[0, 0], got=both, think=think)


def _expect_streams_of_their_own(found: dict) -> None:
    """For the weights of each seed, and for the noise of each rank and seed."""
    lists = {f"the weights of seed {seed}": w for (_, seed), (w, _) in found.items()}
    lists |= {f"the noise of rank {r}, seed {s}": n for (r, s), (_, n) in found.items()}
    if clash := _clash_of_streams(lists, by_chance=1):
        first, second, number = clash
        with trying(f"{first}; {second}") as expect:
            wholly = set(lists[first]) == set(lists[second])
            think = _why_streams_are_alike(first, second, wholly)
            expect(False, got=f"both contain {number:.6f}", think=think)
    names = list(lists)
    noise = [name for name in names if "noise" in name]
    for first, second in [
        (names[0], names[1]),
        (names[0], noise[0]),
        *itertools.pairwise(noise),
    ]:
        with trying(f"{first}; {second}") as expect:
            both = lists[first], lists[second]
            think = "what does the one list tell about the other: does each have a "
            think += "stream of its own?"
            expect(not _stream_tells_of_other(*both, 1 - 1e-9), got=both, think=think)


def _why_streams_are_alike(first: str, second: str, wholly: bool) -> str:
    if "noise" not in second:
        return "another seed, for other weights: what becomes of the seed in yours?"
    if "noise" not in first:
        return (
            "the noise that is somebody's weights: what do rank and seed become for "
            "each, and which other numbers or texts mean the same to a generator?"
        )
    if not wholly:
        return "where the two come from: two streams, or two places in one?"
    (*_, rank, _, seed), (*_, other_rank, _, other_seed) = first.split(), second.split()
    if seed == other_seed:
        return "what becomes of the rank in the noise?"
    if rank == other_rank:
        return "what becomes of the seed in the noise?"
    return "the number or text that rank and seed become: which others become the same?"
