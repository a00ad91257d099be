"""Checks of the exercises of lesson 01, Why parallel?"""

import random
from collections.abc import Callable, Iterable, Iterator
from statistics import mean, median, median_high, median_low

from demos.performance.parts.speed_claims import CLAIMS, ClaimedRun
from demos.performance.speedup_laws import amdahl
from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying
from sidebyside.expectations import Attempts


def _each_differs_in_one(case: tuple, other: tuple) -> Iterator[tuple]:
    """The case; then it has one value of the other: an answer kept from it is wrong."""
    yield case
    for place, value in enumerate(other):
        yield *case[:place], value, *case[place + 1 :]


def _speed_is_close(got: object, wanted: float) -> bool:
    number = as_number(got)
    return number is not None and abs(number - wanted) <= 1e-5 * max(1.0, abs(wanted))


def _advice_on_speed(
    got: object, right: float, slips: list[tuple[str, float]], think: str
) -> str:
    """What this number is, if we know it: rounded, or what comes of a known slip."""
    number = as_number(got)
    if number is None:
        return "what comes back: is it a number?"
    if number % 1 and any(number == round(right, digits) for digits in range(6)):
        return "a number that is nearly right: is something rounded?"
    known = {slip for slip, value in slips if _speed_is_close(number, value)}
    return known.pop() if len(known) == 1 else think


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


def _slips_of_metrics(samples, one, many, workers) -> dict[str, list]:
    """Advice and value of each common slip, for each of the four."""
    right = _right_metrics(samples, median(one), median(many), workers)
    slips = {
        "throughput": _slips_of_throughput(samples, one, many, workers, right),
        "speedup": _slips_of_speedup(one, many, right["speedup"]),
        "efficiency": _slips_of_efficiency(many, right),
        "serial share": _slips_of_share(right),
    }
    for think, middle in SLIPS_OF_MEDIAN:
        middles = _right_metrics(samples, middle(one), middle(many), workers)
        for name, value in middles.items():
            slips[name].append((think, value))
    return slips


def _slips_of_throughput(samples, one, many, workers, right) -> list:
    throughput, speedup, *_ = right.values()
    return [
        ("whose throughput it is: one worker's, or that of all?", throughput / workers),
        ("the samples: does each worker train on all?", throughput * workers),
        ("whose time it is: the one worker's, or the many's?", samples / median(one)),
        ("images per second: is a part of one cut off?", samples // median(many)),
        ("the order of the four numbers: which comes first?", speedup),
    ]


def _slips_of_speedup(one, many, speedup) -> list:
    pairs = [alone / together for alone, together in zip(one, many, strict=False)]
    return [
        ("the ratio: which of the two times belongs above the line?", 1 / speedup),
        ("the medians: of the times, or of their ratios?", median(pairs)),
        ("many workers who are slower than one: what is the speedup?", max(1, speedup)),
    ]


def _slips_of_efficiency(many, right) -> list:
    speedup, efficiency = right["speedup"], right["efficiency"]
    return [
        ("the unit: is it 1 if nobody waits, or 100?", 100 * efficiency),
        ("what was lost: is that the efficiency?", 1 - efficiency),
        ("an efficiency above 1: what does it tell you?", min(1, efficiency)),
        ("the workers: which value says how many they are?", speedup / len(many)),
    ]


def _slips_of_share(right) -> list:
    _, speedup, efficiency, share = right.values()
    return [
        ("the share that was lost: is it the serial share?", 1 - efficiency),
        (
            "the speedup that many workers come near to: is it that of these?",
            1 / speedup,
        ),
        ("a share below 0: what does its sign tell you?", abs(share)),
        (
            "a share that is not between 0 and 1: what does it tell you?",
            float(share > 1),
        ),
    ]


SLIPS_OF_MEDIAN = [
    ("the middle of the times: is it the mean, or the median?", mean),
    (
        "the middle of the times: in which order do they stand?",
        lambda times: times[len(times) // 2],
    ),
    ("two times in the middle: what lies halfway between them?", median_high),
    ("two times in the middle: what lies halfway between them?", median_low),
    ("the median: why not the best round?", min),
]


def _cases_of_metrics() -> Iterator[tuple]:
    yield 1200, [20, 20, 20], [5, 5, 5], 4  # nobody waits
    yield 1200, [24, 20, 30], [5, 9, 8], 4
    example = 1200, [8, 30, 8], [3, 3, 2], 4
    yield from _each_differs_in_one(example, (500, [6, 9, 7], [4, 2, 5], 3))
    yield 500, [5], [5], 2  # all serial
    yield 1200, [6, 7, 10, 9], [2, 1, 20, 4], 2  # faster than the law allows
    yield 65, [3, 1, 2], [8, 4, 6, 5], 3  # slower than one
    dice = random.Random(1)
    for _ in range(50):
        rounds, workers = dice.randint(1, 6), dice.choice([2, 3, 5, 8, 16, 100])
        one = [round(dice.uniform(8, 12), 2) for _ in range(rounds)]
        many = [round(dice.uniform(0.05, 12), 2) for _ in range(dice.randint(1, 6))]
        yield dice.randint(1, 9999), one, many, workers


@exercise("01-metrics")
def check_01_metrics(metrics):
    attempt = Attempts(metrics)
    for case in _cases_of_metrics():
        attempt(_expect_four_numbers, *case)


def _expect_four_numbers(
    metrics: Callable, samples: int, one: list, many: list, workers: int
) -> None:
    with trying(f"metrics({samples}, {one}, {many}, {workers})", one, many) as expect:
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


def _images_of_claimed_run(run: ClaimedRun) -> int:
    return run.workers * run.batch_per_worker * run.steps


SLIPS_OF_FAIR = {
    "the work of each run: is it the same?": lambda run: 1,
    "a step: do all runs train on as many images in one?": lambda run: run.steps,
    "the workers: does your number speak of all of them, or of one?": lambda run: (
        run.batch_per_worker * run.steps
    ),
    "the batch: how large is a step of all workers together?": lambda run: (
        run.workers * run.steps
    ),
    "the steps: how many are there in each run?": lambda run: (
        run.workers * run.batch_per_worker
    ),
    "images per second: is a part of one cut off?": lambda run: (
        max(1, _images_of_claimed_run(run) // run.seconds) * run.seconds
    ),
}
IMAGES = "the images of each run: how many are they, in how many seconds?"
COUNTED = (
    "what you do with the images and the seconds: is anything rounded, or limited?"
)


def _cases_of_fair() -> Iterator[tuple[ClaimedRun, ClaimedRun, str]]:
    runs = ClaimedRun(2, 32, 100, 10), ClaimedRun(2, 32, 100, 10)
    yield *runs, "two runs that are alike: how many times as fast is one of them?"
    runs = ClaimedRun(1, 64, 100, 10), ClaimedRun(1, 64, 100, 5)
    yield *runs, "as many images in half the time: how many times as fast is that?"
    case = 3, 8, 120, 20, 9, 16, 500, 40
    think = IMAGES
    for values in _each_differs_in_one(case, (2, 4, 200, 16, 5, 32, 300, 30)):
        yield ClaimedRun(*values[:4]), ClaimedRun(*values[4:]), think
        think = COUNTED
    for one, many in CLAIMS.values():
        yield one, many, COUNTED
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
        yield one, many, COUNTED


@exercise("01-fair")
def check_01_fair(fair_speedup):
    attempt = Attempts(fair_speedup)
    for one, many, think in _cases_of_fair():
        attempt(_expect_fair_speedup, one, many, think)


def _expect_fair_speedup(
    fair_speedup: Callable, one: ClaimedRun, many: ClaimedRun, think: str
) -> None:
    with trying(f"fair_speedup({one}, {many})") as expect:
        got = fair_speedup(one, many)
        right = _fair_ratio(many, one, _images_of_claimed_run)
        slips = [
            (slip, _fair_ratio(many, one, work)) for slip, work in SLIPS_OF_FAIR.items()
        ]
        turned_round = _images_of_claimed_run(one) / _images_of_claimed_run(many)
        slips += [
            ("the ratio: which run belongs above the line?", 1 / right),
            (
                "the images: which run's belong above the line?",
                turned_round * one.seconds / many.seconds,
            ),
            ("the first run: how many workers does it have?", right * one.workers),
        ]
        if one.workers > 1:
            slips.append(
                (
                    "the workers, who are in the images already: why divide by them?",
                    right / many.workers,
                )
            )
        expect(
            _speed_is_close(got, right),
            got=got,
            think=_advice_on_speed(got, right, slips, think),
        )


JOBS = [  # hours, share, price, waiting, most
    ((20, 0.2, 1, 0, 16), "waiting, which costs nothing here: who else is paid?"),
    ((10, 0.2, 1, 10, 16), "the example: what do 4, 6 and 8 workers cost in total?"),
    ((8, 0.25, 1, 9, 3), "`most` workers: is it among the numbers that you try?"),
    (
        (0.06, 0.2, 1, 10, 16),
        "a job of minutes: what is left of its costs in yours?",
    ),
    (
        (10, 0.5, 1, 6.1, 16),
        "the costs of 2 and of 3 workers: what are they, if nothing is rounded?",
    ),
    ((10, 0, 1, 10, 16), "no serial part: for how many hours are all paid together?"),
    ((8, 1, 1, 10, 16), "all of it is serial: what do you gain from a second worker?"),
    ((8, 0.01, 1, 90, 1), "one worker, as no more can be had: what remains to choose?"),
    ((8, 0.5, 0, 3, 5), "workers that cost nothing: what costs something?"),
    (
        (10, 0.005, 1, 10, 100),
        "a small serial share: is it used as it is, and is each number tried?",
    ),
    (
        (0.1, 0.0001, 0.01, 90, 2000),
        "many workers: are all up to `most` tried, and is any cost rounded?",
    ),
    ((10, 0.001, 1, 21, 1000), "many workers: is each number of them tried?"),
]


def _jobs_worth_paying() -> Iterator[tuple[tuple, str]]:
    yield from JOBS
    think = "the cost of each number of workers: is yours the lowest?"
    for job in _each_differs_in_one((10, 0.2, 1, 10, 16), (20, 0.5, 5, 40, 4)):
        yield job, think
    dice = random.Random(1)
    for _ in range(200):
        hours, share = dice.choice([dice.randint(1, 99), 0.5]), dice.random()
        prices = dice.choice([dice.randint(1, 9), 0.25]), dice.randint(0, 99)
        yield (hours, round(share, 2), *prices, dice.randint(1, 40)), think


def _cost_to_pay(hours, share, price, waiting, workers) -> float:
    return hours / amdahl(share, workers) * (workers * price + waiting)


def _cheapest_to_pay(job: tuple, cost: Callable = _cost_to_pay) -> set[int]:
    """The number of workers that costs least; or several, if they cost the same."""
    *terms, most = job
    costs = {workers: cost(*terms, workers) for workers in range(1, most + 1)}
    limit = min(costs.values()) + 1e-9 * abs(min(costs.values()))
    return {workers for workers, total in costs.items() if total <= limit}


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
    attempt, slips = Attempts(worth_paying), dict(SLIPS_OF_WORTH)
    for job, think in _jobs_worth_paying():
        attempt(_expect_cheapest_workers, job, think, slips)


def _expect_cheapest_workers(
    worth_paying: Callable, job: tuple, think: str, slips: dict[str, Callable]
) -> None:
    """The slips that do not explain the answer, here or before, are taken out."""
    *terms, most = job
    with trying(f"worth_paying{job}") as expect:
        got = worth_paying(*job)
        expect(
            as_number(got) in range(1, most + 1),
            got=got,
            think=f"the answer: is it a whole number of workers, from 1 to {most}?",
        )
        workers, right = int(as_number(got)), _cheapest_to_pay(job)
        for slip, cost in list(slips.items()):
            cheapest = _cheapest_to_pay(job, cost)
            if workers not in cheapest:
                del slips[slip]
            elif not right & cheapest:
                think = slip
        mine, lowest = (_cost_to_pay(*terms, k) for k in (workers, min(right)))
        expect(
            workers in right,
            got=f"{got}, and the total cost is {mine:.6g}; it can be {lowest:.6g}",
            think=think,
        )
