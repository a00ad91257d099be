"""Checks of the exercises of lesson 01, Why parallel?"""

import random
from collections.abc import Callable, Iterable, Iterator
from statistics import mean, median

from demos.performance.parts.speed_claims import CLAIMS, ClaimedRun
from demos.performance.speedup_laws import amdahl
from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying


def _speed_is_close(got: object, wanted: float) -> bool:
    number = as_number(got)
    return number is not None and abs(number - wanted) <= 1e-5 * max(1.0, abs(wanted))


def _advice_on_speed(
    got: object, right: float, slips: dict[str, float], think: str
) -> str:
    """What this number is, if we know it: rounded, or what comes of a known slip."""
    number = as_number(got)
    if number is None:
        return "what comes back: is it a number?"
    if number % 1 and any(number == round(right, digits) for digits in range(6)):
        return "a number that is nearly right: is something rounded?"
    known = [slip for slip, value in slips.items() if _speed_is_close(number, value)]
    return known[0] if len(known) == 1 else think


METRICS = {
    "throughput": "work by time: how many images per second did all workers together "
    "train on, in the median round (of two in the middle, halfway between them)?",
    "speedup": "how many times as fast it is: which time belongs above the line, and "
    "is each the median of its list?",
    "efficiency": "the share of the workers' time that was put to use: what is it if "
    "nobody ever waited?",
    "serial share": "Amdahl's law: does 1 / (s + (1 - s) / k) give your speedup, if s "
    "is your share?",
}


def _right_metrics(samples: int, serial: float, parallel: float, workers: int) -> dict:
    speedup = serial / parallel
    share = (1 / speedup - 1 / workers) / (1 - 1 / workers)
    values = samples / parallel, speedup, speedup / workers, share
    return dict(zip(METRICS, values, strict=True))


def _slips_of_metrics(samples, one, many, workers) -> dict[str, dict[str, float]]:
    """Advice and value of each common slip, for each of the four."""
    right = _right_metrics(samples, median(one), median(many), workers)
    slips = {name: {} for name in METRICS}
    middles = {
        "the middle of the times: is it the mean, or the median?": mean,
        "the middle of the times: in which order do they stand?": lambda times: times[
            len(times) // 2
        ],
        "two times in the middle: what lies halfway between them?": lambda times: (
            sorted(times)[len(times) // 2]
        ),
        "the median: why not the best round?": min,
    }
    for think, middle in middles.items():
        for name, value in _right_metrics(
            samples, middle(one), middle(many), workers
        ).items():
            slips[name][think] = value
    throughput, speedup, efficiency, share = right.values()
    slips["throughput"] |= {
        "whose throughput it is: one worker's, or that of all workers together?": (
            throughput / workers
        ),
        "the samples: does each worker train on all of them?": throughput * workers,
        "whose time it is: the one worker's, or the many's?": samples / median(one),
    }
    slips["speedup"]["the ratio: which of the two times belongs above the line?"] = (
        1 / speedup
    )
    slips["efficiency"] |= {
        "the unit: is it 1 if nobody waits, or 100?": 100 * efficiency,
        "what was lost: is that the efficiency?": 1 - efficiency,
    }
    slips["serial share"] |= {
        "the share that was lost: is it the serial share?": 1 - efficiency,
        "the speedup that many workers come near to: is it that of these?": 1 / speedup,
        "a share that is not between 0 and 1: what does it tell you?": float(share > 1),
    }
    return slips


def _cases_of_metrics() -> Iterator[tuple]:
    yield 1200, [20, 20, 20], [5, 5, 5], 4  # nobody waits
    yield 1200, [8, 30, 8], [3, 3, 2], 4  # the example
    yield 1200, [9], [3], 2  # as many samples, in another time
    yield 500, [5], [5], 2  # all serial
    yield 1200, [10, 6], [2, 4], 2  # two rounds, and faster than the law allows
    yield 64, [3, 1, 2], [8, 4, 6, 5], 3  # slower than one
    dice = random.Random(1)
    for _ in range(50):
        rounds, workers = dice.randint(1, 6), dice.choice([2, 3, 5, 8, 16, 100])
        one = [round(dice.uniform(8, 12), 2) for _ in range(rounds)]
        many = [round(dice.uniform(0.05, 12), 2) for _ in range(dice.randint(1, 6))]
        yield dice.randint(1, 9999), one, many, workers


@exercise("01-metrics")
def check_01_metrics(metrics):
    for samples, one, many, workers in _cases_of_metrics():
        with trying(
            f"metrics({samples}, {one}, {many}, {workers})", one, many
        ) as expect:
            got = metrics(samples, one, many, workers)
            values = tuple(got) if isinstance(got, Iterable) else ()  # an array, too
            think = f"the answer: are these four numbers, {', '.join(METRICS)}?"
            expect(len(values) == 4, got=got, think=think)
            right = _right_metrics(samples, median(one), median(many), workers)
            slips = _slips_of_metrics(samples, one, many, workers)
            for value, (name, wanted) in zip(values, right.items(), strict=True):
                expect(
                    _speed_is_close(value, wanted),
                    got=f"{value!r} as the {name}",
                    think=_advice_on_speed(value, wanted, slips[name], METRICS[name]),
                )


def _fair_ratio(
    many: ClaimedRun, one: ClaimedRun, work: Callable[[ClaimedRun], float]
) -> float:
    return work(many) / many.seconds / (work(one) / one.seconds)


SLIPS_OF_FAIR = {
    "the work of each run: is it the same?": lambda run: 1,
    "a step: do all runs train on as many images in one?": lambda run: run.steps,
    "the workers: who trains on a batch in each step?": lambda run: (
        run.batch_per_worker * run.steps
    ),
    "the batch: how large is a step of all workers together?": lambda run: (
        run.workers * run.steps
    ),
    "the steps: how many are there in each run?": lambda run: (
        run.workers * run.batch_per_worker
    ),
}


def _images_of_claimed_run(run: ClaimedRun) -> int:
    return run.workers * run.batch_per_worker * run.steps


def _cases_of_fair() -> Iterator[tuple[ClaimedRun, ClaimedRun]]:
    yield ClaimedRun(2, 32, 100, 10), ClaimedRun(2, 32, 100, 10)
    yield ClaimedRun(1, 64, 100, 10), ClaimedRun(1, 64, 100, 5)
    yield ClaimedRun(1, 64, 100, 20), ClaimedRun(1, 64, 100, 5)  # another one
    yield from CLAIMS.values()
    dice = random.Random(1)
    for _ in range(50):
        one, many = (
            ClaimedRun(
                workers=dice.randint(1, 8),
                batch_per_worker=dice.choice([1, 8, 16, 64]),
                steps=dice.randint(1, 500),
                seconds=dice.choice([dice.randint(1, 500), dice.uniform(0.1, 9)]),
            )
            for _ in range(2)
        )
        yield one, many


@exercise("01-fair")
def check_01_fair(fair_speedup):
    for one, many in _cases_of_fair():
        with trying(f"fair_speedup({one}, {many})") as expect:
            got = fair_speedup(one, many)
            right = _fair_ratio(many, one, _images_of_claimed_run)
            slips = {
                think: _fair_ratio(many, one, w) for think, w in SLIPS_OF_FAIR.items()
            }
            slips["the ratio: which run belongs above the line?"] = 1 / right
            slips["one worker's share: is it asked for?"] = (
                right / many.workers * one.workers
            )
            if one.workers > 1:
                slips[
                    "the workers, who are in the images already: why divide by them?"
                ] = right / many.workers
            slips["the images: which run's belong above the line?"] = (
                _images_of_claimed_run(one) / many.seconds
            ) / (_images_of_claimed_run(many) / one.seconds)
            think = "the images of each run: how many are they, in how many seconds?"
            expect(
                _speed_is_close(got, right),
                got=got,
                think=_advice_on_speed(got, right, slips, think),
            )


JOBS = [  # hours, share, price, waiting, most
    ((20, 0.2, 1, 0, 16), "waiting, which costs nothing here: who else is paid?"),
    ((10, 0.2, 1, 10, 16), "the example: what do 4, 6 and 8 workers cost in total?"),
    ((10, 0.2, 1, 10, 4), "`most`, which is 4 here: is the answer that of before?"),
    (
        (0.06, 0.2, 1, 10, 16),
        "a job of minutes: what is left of its costs in yours?",
    ),
    (
        (10, 0.5, 1, 6.1, 16),
        "the best number, which lies between two whole ones: which of the two is "
        "cheaper?",
    ),
    ((10, 0, 1, 10, 16), "no serial part: for how many hours are all paid together?"),
    ((8, 1, 1, 10, 16), "all of it is serial: what do you gain from a second worker?"),
    ((8, 0.25, 1, 9, 3), "`most` workers: is it among the numbers that you try?"),
    ((8, 0.01, 1, 90, 1), "one worker, as no more can be had: what remains to choose?"),
    ((8, 0.5, 0, 3, 5), "workers that cost nothing: what costs something?"),
    (
        (0.1, 0.0001, 0.01, 90, 2000),
        "many workers: are all up to `most` tried, and is any cost rounded?",
    ),
    ((10, 0.1, 1, 4, 1000), "many workers: is each number of them tried?"),
]


def _jobs_worth_paying() -> Iterator[tuple[tuple, str]]:
    yield from JOBS
    dice = random.Random(1)
    for _ in range(200):
        hours, share = dice.choice([dice.randint(1, 99), 0.5]), dice.random()
        prices = dice.choice([dice.randint(1, 9), 0.25]), dice.randint(0, 99)
        job = hours, round(share, 2), *prices, dice.randint(1, 40)
        yield job, "the cost of each number of workers: is yours the lowest?"


def _cost_to_pay(hours, share, price, waiting, workers) -> float:
    return hours / amdahl(share, workers) * (workers * price + waiting)


def _cheapest_to_pay(job: tuple, cost: Callable = _cost_to_pay) -> int:
    *terms, most = job
    return min(range(1, most + 1), key=lambda workers: cost(*terms, workers))


SLIPS_OF_WORTH = {
    "your waiting: is it paid too, once for all workers?": (
        lambda hours, share, price, _, k: _cost_to_pay(hours, share, price, 0, k)
    ),
    "the serial part: who is paid while one works?": lambda hours, share, price, w, k: (
        hours * price + hours / amdahl(share, k) * w
    ),
    "the fastest: is it the cheapest?": lambda hours, share, price, waiting, k: -k,
}


@exercise("01-worth")
def check_01_worth(worth_paying):
    for job, think in _jobs_worth_paying():
        *terms, most = job
        with trying(f"worth_paying{job}") as expect:
            got = worth_paying(*job)
            expect(
                as_number(got) in range(1, most + 1),
                got=got,
                think=f"the answer: is it a whole number of workers, from 1 to {most}?",
            )
            mine, lowest = (
                _cost_to_pay(*terms, got),
                _cost_to_pay(*terms, _cheapest_to_pay(job)),
            )
            if got == most - 1 == _cheapest_to_pay((*terms, most - 1)):
                think = "`most`: is it among the numbers that you try?"
            slips = [
                slip
                for slip, cost in SLIPS_OF_WORTH.items()
                if got == _cheapest_to_pay(job, cost)
            ]
            think = slips[0] if slips else think
            expect(
                mine <= lowest * (1 + 1e-9),
                got=f"{got}, and the total cost is {mine:.6g}; it can be {lowest:.6g}",
                think=think,
            )
