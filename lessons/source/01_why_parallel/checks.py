"""Checks of the exercises of lesson 01, Why parallel?"""

import random
from collections.abc import Iterator
from statistics import median

from lessons.props.why_parallel import CLAIMS, ClaimedRun
from parallel_by_hand.performance.speedup_laws import amdahl
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying


def _is_close(got: object, wanted: float) -> bool:
    number = as_number(got)
    return number is not None and abs(number - wanted) <= 1e-5 * max(1.0, abs(wanted))


METRICS = {
    "throughput": "work by time: all workers together train on `samples` images. In "
    "how many seconds, in the median round of `many`?",
    "speedup": "how many times as fast it is: which time belongs above the line, and "
    "is each the median of its list?",
    "efficiency": "the share of the workers' time that was put to use: what is it if "
    "nobody ever waited?",
    "serial share": "Amdahl's law: does 1 / (s + (1 - s) / k) give your speedup, if s "
    "is your share?",
}


def _right_metrics(samples: int, serial: float, parallel: float, workers: int) -> tuple:
    speedup = serial / parallel
    share = (1 / speedup - 1 / workers) / (1 - 1 / workers)
    return samples / parallel, speedup, speedup / workers, share


def _times_of_jobs() -> Iterator[tuple]:
    yield 1200, [20, 20, 20], [5, 5, 5], 4  # nobody waits
    yield 1200, [24, 20, 30], [5, 9, 8], 4
    yield 1200, [8, 30, 8], [3, 3, 2], 4  # the example
    yield 500, [5], [5], 2  # all serial
    yield 1200, [6, 7, 10, 9], [2, 1, 20, 4], 2  # faster than the law allows
    yield 65, [3, 1, 2], [8, 4, 6, 5], 3  # slower than one
    dice = random.Random(1)
    for _ in range(20):
        one = [round(dice.uniform(8, 12), 2) for _ in range(dice.randint(1, 6))]
        many = [round(dice.uniform(0.05, 12), 2) for _ in range(dice.randint(1, 6))]
        yield dice.randint(1, 9999), one, many, dice.choice([2, 3, 5, 8, 100])


@exercise("01-metrics")
def check_01_metrics(metrics):
    for samples, one, many, workers in _times_of_jobs():
        tried = f"metrics({samples}, {one}, {many}, {workers})"
        with trying(tried, one, many) as expect:
            got = metrics(samples, one, many, workers)
            values = tuple(got) if hasattr(got, "__iter__") else ()
            think = f"the answer: are these four numbers, {', '.join(METRICS)}?"
            expect(len(values) == 4, got=got, think=think)
            right = _right_metrics(samples, median(one), median(many), workers)
            for value, name, wanted in zip(values, METRICS, right, strict=True):
                told = f"{value!r} as the {name}, where {wanted:.6g} is right"
                expect(_is_close(value, wanted), got=told, think=METRICS[name])


TIMED = [  # the run `one`, the run `many`, what to think about
    ((2, 32, 100, 10), (2, 32, 100, 10), "two equal runs: are they counted alike?"),
    ((1, 64, 100, 10), (1, 64, 100, 5), "half the time: is that faster, and how much?"),
    ((1, 64, 100, 10), (1, 64, 200, 10), "twice the images in 10 s: is that faster?"),
    ((1, 64, 100, 10), (4, 64, 100, 10), "four workers for 10 s: is that no faster?"),
    (
        (1, 64, 100, 10),
        (1, 16, 100, 10),
        "the batch: how many images is a step of each run?",
    ),
    (
        (1, 8, 100, 10),
        (4, 8, 100, 80),
        "more workers that take longer: are they slower?",
    ),
    (
        (3, 8, 120, 20),
        (9, 16, 500, 40),
        "the first run: how many workers does it have?",
    ),
]


@exercise("01-fair")
def check_01_fair(fair_speedup):
    think = "the images of each run, and its seconds: is anything rounded?"
    claims = [(*claim, think) for claim in CLAIMS.values()]
    for one, many, think in TIMED + claims:
        one, many = ClaimedRun(*one), ClaimedRun(*many)
        rates = [
            w * batch * steps / seconds for w, batch, steps, seconds in (one, many)
        ]
        with trying(f"fair_speedup({one}, {many})") as expect:
            got = fair_speedup(one, many)
            expect(_is_close(got, rates[1] / rates[0]), got=got, think=think)


JOBS = [  # hours, share, price, waiting, most
    ((20, 0.2, 1, 0, 16), "free waiting: what do 1, 2 and 16 workers cost?"),
    (
        (10, 0.2, 1, 10, 16),
        "the example: what do 4, 6 and 8 workers cost, who is paid while one works, "
        "and how often is your own hour counted?",
    ),
    ((8, 0.25, 1, 9, 3), "`most` workers: is it among the numbers that you try?"),
    ((10, 0, 1, 10, 16), "no serial part: for how many hours are all paid together?"),
    ((8, 1, 1, 10, 16), "serial work only: what do you gain from a second worker?"),
    ((8, 0.9, 1, 90, 4), "mostly serial work: can a second worker be worth its price?"),
    ((10, 0.001, 1, 21, 1000), "many workers: is each number of them tried?"),
]


@exercise("01-worth")
def check_01_worth(worth_paying):
    think = "the cost of each number of workers: is yours the lowest?"
    more = [((9, n / 40, 1 + n % 9, 2 * n, n + 1), think) for n in range(40)]
    for job, think in JOBS + more:
        hours, share, price, waiting, most = job
        with trying(f"worth_paying{job}") as expect:
            got = worth_paying(*job)
            expect(
                as_number(got) in range(1, most + 1),
                got=got,
                think=f"the answer: is it a whole number of workers, from 1 to {most}?",
            )
            costs = {
                k: hours / amdahl(share, k) * (k * price + waiting)
                for k in range(1, most + 1)
            }
            mine, lowest = costs[int(got)], min(costs.values())
            takes = hours / amdahl(share, int(got))
            said = f"{got}: {takes:.6g} hours cost {mine:.6g}; it can be {lowest:.6g}"
            expect(mine <= lowest + 1e-9 * lowest, got=said, think=think)
