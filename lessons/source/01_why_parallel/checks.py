"""Checks of the exercises of lesson 01, Why parallel?"""

import math
import random
from collections.abc import Iterable
from statistics import median

from demos.performance.parts.speed_claims import CLAIMS, ClaimedRun
from demos.performance.speedup_laws import amdahl
from sidebyside.exercises import exercise, expect


def _is_number(value: object) -> bool:
    try:
        return not isinstance(value, bool | str) and math.isfinite(value)
    except TypeError:
        return False


def _close(got: float, wanted: float) -> bool:
    return abs(got - wanted) <= 1e-6 * max(1.0, abs(wanted))


def _advice(got: object, right: float, think: str) -> str:
    if _is_number(got) and abs(got - right) <= 0.02 * max(1.0, abs(right)):
        return "nearly right: is something rounded? Return what comes out"
    return think


def _expected_metrics(samples, one, many, workers) -> dict[str, float]:
    speedup = median(one) / median(many)
    return {
        "throughput": samples / median(many),
        "speedup": speedup,
        "efficiency": speedup / workers,
        "serial share": (1 / speedup - 1 / workers) / (1 - 1 / workers),
    }


METRICS = {
    "throughput": "work by time: how many images per second did all workers together "
    "train on, in the median round (of two in the middle, halfway between them)?",
    "speedup": "how many times as fast: which time is larger, and which belongs above "
    "the line? Take the median of each list, whatever its order",
    "efficiency": "the share of the workers' time that was put to use: 1 if nobody "
    "ever waited",
    "serial share": "put your share into Amdahl's law: 1 / (s + (1 - s) / k) should "
    "give your speedup, also where s is not between 0 and 1",
}


@exercise("01-metrics")
def check_metrics(metrics):
    def try_out(samples, one, many, workers) -> None:
        tried = f"metrics({samples}, {one}, {many}, {workers})"
        got = metrics(samples, list(one), list(many), workers)
        values = tuple(got) if isinstance(got, Iterable) else ()  # an array, too
        expect(
            len(values) == 4,
            tried,
            got,
            "four numbers, in the order throughput, speedup, efficiency, serial share",
        )
        wanted = _expected_metrics(samples, one, many, workers)
        for value, (name, right) in zip(values, wanted.items(), strict=True):
            expect(
                _is_number(value) and _close(value, right),
                tried,
                f"{value!r} as the {name}",
                _advice(value, right, METRICS[name]),
            )

    try_out(1200, [8, 8, 8], [2, 2, 2], 4)  # nobody waits
    try_out(1200, [8, 30, 8], [3, 3, 2], 4)  # the example
    try_out(500, [5], [5], 2)  # all serial
    try_out(1200, [10, 6], [2, 4], 2)  # two rounds, and faster than the law allows
    dice = random.Random(1)
    for _ in range(50):
        rounds, workers = dice.choice([1, 3, 4, 5]), dice.randint(2, 16)
        one = [round(dice.uniform(8, 12), 2) for _ in range(rounds)]
        many = [round(dice.uniform(1, 12), 2) for _ in range(rounds)]
        try_out(dice.randint(100, 9999), one, many, workers)


def _images(run: ClaimedRun) -> int:
    return run.workers * run.batch_per_worker * run.steps


@exercise("01-fair")
def check_fair(fair_speedup):
    def try_out(one: ClaimedRun, many: ClaimedRun, think: str) -> None:
        got = fair_speedup(one, many)
        right = _images(many) / many.seconds / (_images(one) / one.seconds)
        tried = f"fair_speedup({one}, {many})"
        expect(_is_number(got), tried, got, "one number: a ratio of two throughputs")
        expect(_close(got, right), tried, got, _advice(got, right, think))

    run = ClaimedRun(2, 32, 100, 10)
    try_out(run, run, "a run against itself: how many times as fast is it?")
    try_out(
        ClaimedRun(1, 64, 100, 10),
        ClaimedRun(1, 64, 100, 5),
        "the same work in half the time: which of the two belongs above the line?",
    )
    try_out(
        *CLAIMS["a short evening"],
        "how many images did each of the two train on? Is that the same work?",
    )
    try_out(
        *CLAIMS["not worth it"],
        "in each step each worker trains on a batch: who did more work, and how much?",
    )
    try_out(
        *CLAIMS["small batches"],
        "the same number of steps, but how large is a step of all workers together?",
    )
    dice = random.Random(1)
    for _ in range(50):
        runs = [
            ClaimedRun(
                workers=dice.randint(1, 8),
                batch_per_worker=dice.choice([8, 16, 64]),
                steps=dice.randint(1, 500),
                seconds=dice.randint(1, 500),
            )
            for _ in range(2)
        ]
        try_out(*runs, "count the images of each run: workers, batches, steps")


def _cost(hours, share, price, waiting, workers) -> float:
    return hours / amdahl(share, workers) * (workers * price + waiting)


@exercise("01-worth")
def check_worth(worth_paying):
    def try_out(hours, share, price, waiting, most, think) -> None:
        costs = {
            workers: _cost(hours, share, price, waiting, workers)
            for workers in range(1, most + 1)
        }
        lowest = min(costs.values())
        good = [k for k, cost in costs.items() if cost <= lowest * (1 + 1e-9)]
        tried = f"worth_paying({hours}, {share}, {price}, {waiting}, {most})"
        got = worth_paying(hours, share, price, waiting, most)
        expect(
            _is_number(got) and got in costs,
            tried,
            got,
            f"a whole number of workers, from 1 to {most}",
        )
        if most in good and got == most - 1:
            think = "is `most` among the numbers you try? `range(1, n)` ends at n - 1"
        expect(got in good, tried, got, think)

    try_out(
        20, 0.2, 1, 0, 16,
        "waiting costs nothing here, and a second worker is paid in the serial part",
    )  # fmt: skip
    try_out(
        10, 0.2, 1, 10, 16,
        "the example. What do 4, 6 and 8 workers cost, all hours of all workers paid, "
        "and your waiting?",
    )  # fmt: skip
    try_out(
        10, 0, 1, 10, 16,
        "no serial part: all workers together are paid for the same number of hours, "
        "however many they are. What about your waiting?",
    )  # fmt: skip
    try_out(
        8, 1, 1, 10, 16, "all of it is serial: what do you gain from a second worker?"
    )
    try_out(
        8, 0.25, 1, 9, 3, "no more than `most` workers can be had: the best of these"
    )
    dice = random.Random(1)
    for _ in range(200):
        job = [dice.randint(1, 99), dice.randint(1, 99) / 100]
        prices = [dice.randint(1, 9), dice.randint(0, 99)]
        try_out(*job, *prices, dice.randint(1, 40), "compute the cost of each number")
