"""Checks of the exercises of lesson 06, Overheads and how many workers."""

import operator
import random
from collections.abc import Callable
from itertools import product

import numpy as np

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.expectations import Expect

CAUSES = {
    "A": ("a lock", "is there a moment at which both workers are busy?"),
    "B": (
        "small pieces",
        "how long does main take to hand out a piece, and how often does it?",
    ),
    "C": ("uneven shares", "how many pieces does each worker have?"),
    "D": ("a serial part", "what has to end before the first worker begins?"),
}
CHOICES = [cause for cause, _ in CAUSES.values()] + ["slow start", "too many threads"]


@exercise("06-timelines")
def check_06_timelines(causes):
    with trying("your four causes") as expect:
        form = 'the form: one cause for each of A, B, C and D: {"A": "slow start", ...}'
        good = isinstance(causes, dict) and set(causes) == set(CAUSES)
        expect(good, got=causes, think=form)
        choices = f"the words to choose from: {', '.join(map(repr, sorted(CHOICES)))}"
        known = all(cause in CHOICES for cause in causes.values())
        expect(known, got=list(causes.values()), think=choices)
        wrong = [name for name, (cause, _) in CAUSES.items() if causes[name] != cause]
        got = f"{len(CAUSES) - len(wrong)} right, of {len(CAUSES)}"
        think = f"{wrong[0]}: {CAUSES[wrong[0]][1]}" if wrong else ""
        expect(not wrong, got=got, think=think)


def _whole_number_of_workers(expect: Expect, got: object, most: int, what: str) -> int:
    """A whole number of any kind, from 1 to `most`."""
    whole = hasattr(got, "__index__") and not isinstance(got, bool)
    expect(whole, got=got, think=f"the form: one whole number, {what}")
    number = operator.index(got)
    expect(1 <= number <= most, got=got, think=f"{what}: from 1 to {most}")
    return number


ROWS = "the rows of the fit: is each of these timings one of them, so that a number "
ROWS += "measured more often counts more?"
NOISY = [  # timings, most
    ([(1, 48), (1, 46), (2, 33), (4, 16), (4, 16), (8, 22)], 16),  # means, medians: 6
    ([(1, 48), (2, 30), (4, 20), (4, 20), (4, 60), (8, 18)], 16),  # one is far off
]
LAWS = [  # a, b, c; most; what to think about
    (
        (1, 16.5, 1),
        8,
        "your curve: does it go through all four timings, as T does here? And where "
        "is it lowest?",
    ),
    ((1, 37, 1), 16, "the best number: must it have been measured?"),
    (
        (1, 6.2, 1),
        16,
        "the curve, which is steeper at the left: which of the two neighbours of the "
        "square root is better?",
    ),
    ((0.5, 90, 0.2), 12, "`most` itself: does your range reach it?"),
    ((50, 25, 1), 20, "a, which is large here: is it in your fit?"),
]


@exercise("06-best")
def check_06_best(best_workers):
    for constants, most, think in LAWS:
        timings = [(k, _seconds_of_workers(*constants, k)) for k in (1, 2, 4, 8)]
        law = "with a = {:g}, b = {:g}, c = {:g}".format(*constants)
        tried = f"best_workers(timings, {most}), timings of 1, 2, 4, 8 workers {law}"
        _expect_best_workers(best_workers, timings, most, tried, think)
    dice = random.Random(6)
    noisy = list(NOISY)
    for _ in range(50):
        law = dice.uniform(10, 40), dice.uniform(5, 200), dice.uniform(0.1, 2)
        crews = [1, 3, 20, *dice.choices(range(1, 20), k=8)]
        seconds = [_seconds_of_workers(*law, k) * dice.uniform(0.9, 1.1) for k in crews]
        timings = [(k, round(time, 2)) for k, time in zip(crews, seconds, strict=True)]
        noisy.append((timings, dice.choice([4, 12, 24])))
    for timings, most in noisy:
        tried = f"best_workers({timings}, {most})"
        _expect_best_workers(best_workers, timings, most, tried, ROWS)


def _expect_best_workers(
    best_workers: Callable, timings: list, most: int, tried: str, think: str
) -> None:
    rows = np.array([[1, 1 / k, k] for k, _ in timings])
    law = np.linalg.lstsq(rows, np.array([time for _, time in timings]))[0]
    seconds = {k: _seconds_of_workers(*law, k) for k in range(1, most + 1)}
    right = min(seconds, key=seconds.get)
    given = list(timings)
    with trying(tried, given) as expect:
        got = _whole_number_of_workers(
            expect, best_workers(given, most), most, "a number of workers"
        )
        as_good = seconds[got] <= seconds[right] + 1e-6 * abs(seconds[right])
        fit = f"{got}; by the fit T({got}) = {seconds[got]:.5g}, "
        fit += f"T({right}) = {seconds[right]:.5g}"
        expect(as_good, got=fit, think=think)


def _seconds_of_workers(a: float, b: float, c: float, workers: int) -> float:
    return a + b / workers + c * workers


BY_HAND = "the timelines of both sizes, by hand: which worker is free first, and what "
BY_HAND += "does each chunk cost it? And is every size tried?"
JOBS = [  # tasks, workers, overhead; what to think about
    (
        [1, 1, 1, 1, 4],
        2,
        1,
        "the example, with its times 9, 8, 6, 5, 9: are they yours? How often is the "
        "overhead paid for a chunk of 3?",
    ),
    ([3, 1, 1, 3], 2, 0, "either size: who is free first? When are both done?"),
    ([1, 1, 1, 1, 1, 1], 2, 5, BY_HAND),
    ([1] * 8 + [8], 2, 1, "every size up to the number of tasks: is it tried?"),
    ([9, 1, 1, 1, 1, 1, 1, 9], 3, 0.5, "the order of the tasks: who may change it?"),
]


@exercise("06-chunk", seconds=20)
def check_06_chunk(chunk_size):
    for job in JOBS:
        _expect_best_chunk_size(chunk_size, *job)
    dice = random.Random(6)
    for workers, overhead in product((1, 2, 3, 5), (0, 0.5, 1, 20)):
        for length in 5, 9, 14, 30:
            tasks = dice.choices([0.1, 1, 1, 2, 3, 9], k=length)
            _expect_best_chunk_size(chunk_size, tasks, workers, overhead, BY_HAND)


def _expect_best_chunk_size(
    chunk_size: Callable, tasks: list, workers: int, overhead: float, think: str
) -> None:
    sizes = range(1, len(tasks) + 1)
    done = {s: _when_chunks_are_done(tasks, workers, overhead, s) for s in sizes}
    best = min(done, key=done.get)
    given = list(tasks)
    with trying(f"chunk_size({tasks}, {workers}, {overhead})", given) as expect:
        got = chunk_size(given, workers, overhead)
        size = _whole_number_of_workers(expect, got, len(tasks), "the size of a chunk")
        told = f"{got}; chunks of {size} are done after {done[size]:g}, "
        told += f"chunks of {best} after {done[best]:g}"
        expect(done[size] <= done[best] + 1e-9, got=told, think=think)


def _when_chunks_are_done(
    tasks: list, workers: int, overhead: float, size: int
) -> float:
    """When the last of `workers` is done, if a free one takes the next chunk."""
    free = [0] * workers
    for start in range(0, len(tasks), size):
        free.sort()
        free[0] += overhead + sum(tasks[start : start + size])
    return max(free)
