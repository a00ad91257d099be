"""Answers to the exercises of lesson 01 that people give: wrong, and unusual."""

from fractions import Fraction
from math import ceil, floor, sqrt
from statistics import mean, median

import numpy as np

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.performance.speedup_laws import amdahl

# 01-metrics


def _all_four(samples, serial, parallel, workers):
    speedup = serial / parallel
    share = (1 / speedup - 1 / workers) / (1 - 1 / workers)
    return samples / parallel, speedup, speedup / workers, share


@wrong(
    "01-metrics",
    advice="the median round",
    note="They take the mean, which one disturbed round moves; it does not move the "
    "median.",
)
def takes_means(samples, one, many, workers):
    return _all_four(samples, mean(one), mean(many), workers)


@wrong(
    "01-metrics",
    advice="the median round",
    note="They forget to sort: the median is the middle after sorting.",
)
def takes_the_middle_of_the_list(samples, one, many, workers):
    return _all_four(samples, one[len(one) // 2], many[len(many) // 2], workers)


@wrong(
    "01-metrics",
    advice="all workers together",
    note="They divide by the workers a second time.",
)
def throughput_per_worker(samples, one, many, workers):
    first, *rest = _all_four(samples, median(one), median(many), workers)
    return first / workers, *rest


@wrong(
    "01-metrics",
    advice="above the line",
    note="They divide new time by old time: below 1 when it is faster.",
)
def turns_the_speedup_round(samples, one, many, workers):
    first, speedup, *rest = _all_four(samples, median(one), median(many), workers)
    return first, 1 / speedup, *rest


@wrong(
    "01-metrics",
    advice="if nobody ever waited",
    note="They give it in another unit than the text asks for.",
)
def efficiency_in_per_cent(samples, one, many, workers):
    first, second, third, fourth = _all_four(
        samples, median(one), median(many), workers
    )
    return first, second, 100 * third, fourth


@wrong(
    "01-metrics",
    advice="does 1 / .* give your speedup",
    note="They take the idle share for the serial share: the most common one. With "
    "many workers a small serial share makes a large idle one.",
)
def share_is_what_is_lost(samples, one, many, workers):
    *rest, efficiency, _ = _all_four(samples, median(one), median(many), workers)
    return *rest, efficiency, 1 - efficiency


@wrong(
    "01-metrics",
    advice="does 1 / .* give your speedup",
    note="They hide that the law does not hold for these times.",
)
def share_between_0_and_1(samples, one, many, workers):
    *rest, share = _all_four(samples, median(one), median(many), workers)
    return *rest, min(1, max(0, share))


@wrong(
    "01-metrics",
    advice="four numbers",
    note="They stop before the equation. Point at hint 2.",
)
def three_numbers(samples, one, many, workers):
    return _all_four(samples, median(one), median(many), workers)[:3]


@wrong(
    "01-metrics",
    advice="has become .*who else uses",
    note="They call sort(), which changes the list of whoever called; median() needs "
    "no order.",
)
def sorts_the_lists_of_its_caller(samples, one, many, workers):
    one.sort()
    many.sort()
    return _all_four(samples, median(one), median(many), workers)


@right("01-metrics")
def with_numpy(samples, one, many, workers):
    return np.array(_all_four(samples, np.median(one), np.median(many), workers))


@right("01-metrics")
def with_fractions(samples, one, many, workers):
    one, many = ([Fraction(str(time)) for time in times] for times in (one, many))
    four = _all_four(samples, median(one), median(many), Fraction(workers))
    return (number for number in four)


# 01-fair


@wrong(
    "01-fair",
    advice="more steps in the same time",
    note="They repeat the mistake of the reports.",
)
def divides_the_seconds(one, many):
    return one.seconds / many.seconds


@wrong(
    "01-fair",
    advice="a step of all of them",
    note="They overlook that a step of four workers is more work than a step of one.",
)
def compares_steps(one, many):
    return (many.steps / many.seconds) / (one.steps / one.seconds)


@wrong(
    "01-fair",
    advice="a step of all of them",
    note="They count the images of one worker only.",
)
def forgets_the_workers(one, many):
    return (many.batch_per_worker * many.steps / many.seconds) / (
        one.batch_per_worker * one.steps / one.seconds
    )


@wrong(
    "01-fair",
    advice="how many images is a step of each",
    note="They are right for two claims of three: the batches are equal there.",
)
def forgets_the_batch(one, many):
    return (many.workers * many.steps / many.seconds) / (
        one.workers * one.steps / one.seconds
    )


@wrong(
    "01-fair",
    advice="above the line",
    note="They divide the other way round: a run that is twice as fast gets 0.5.",
)
def the_other_way_round(one, many):
    def rate(run):
        return run.workers * run.batch_per_worker * run.steps / run.seconds

    return rate(one) / rate(many)


@wrong(
    "01-fair",
    advice="is anything rounded",
    note="They round; what is rounded cannot be computed with.",
)
def rounds_the_speedup(one, many):
    return round(1 / the_other_way_round(one, many), 2)


@right("01-fair")
def scales_the_time(one, many):
    w, b, steps, seconds = one
    work_of_many = Fraction(many[0] * many[1] * many[2], w * b * steps)
    return Fraction(seconds) * work_of_many / Fraction(many.seconds)


@right("01-fair")
def seconds_for_a_million_images(one, many):
    seconds = [np.float32(1e6 * r.seconds) / (r[0] * r[1] * r[2]) for r in (one, many)]
    return seconds[0] / seconds[1]


@wrong(
    "01-fair",
    advice="are they slower|a step of each run",
    note="They think that more workers cannot be slower.",
)
def at_least_as_fast(one, many):
    return max(1.0, 1 / the_other_way_round(one, many))


# 01-worth


@wrong(
    "01-worth",
    advice="who else is paid",
    note="They take the fastest, whatever it costs.",
)
def as_many_as_possible(hours, share, price, waiting, most):
    return most


@wrong(
    "01-worth",
    advice="your own waiting",
    note="They forget their own waiting: then one worker is always the cheapest.",
)
def only_the_workers_cost(hours, share, price, waiting, most):
    return min(range(1, most + 1), key=lambda k: hours / amdahl(share, k) * k * price)


@wrong(
    "01-worth",
    advice="who is paid while one works",
    note="They pay only for work. Workers that wait are paid too; this is the point of"
    " the exercise.",
)
def pays_only_for_work(hours, share, price, waiting, most):
    return min(
        range(1, most + 1),
        key=lambda k: hours * price + hours / amdahl(share, k) * waiting,
    )


@wrong(
    "01-worth",
    advice="waiting, which costs nothing",
    note="They follow a rule of thumb, at least half of the efficiency, and not the "
    "cost.",
)
def half_must_be_used(hours, share, price, waiting, most):
    good = [k for k in range(1, most + 1) if amdahl(share, k) / k >= 0.5]
    return good[-1]


@wrong(
    "01-worth",
    advice="is it among the numbers",
    note="They write range(1, most), which ends before most.",
)
def forgets_the_last(hours, share, price, waiting, most):
    return min(
        range(1, max(2, most)),
        key=lambda k: hours / amdahl(share, k) * (k * price + waiting),
    )


@wrong(
    "01-worth",
    advice="whole number of workers",
    note="They return the lowest cost, and not the number of workers that has it.",
)
def returns_the_cost(hours, share, price, waiting, most):
    return min(
        hours / amdahl(share, k) * (k * price + waiting) for k in range(1, most + 1)
    )


def _tried(hours, share, price, waiting, most):
    costs = [
        (hours / amdahl(share, k) * (k * price + waiting), k)
        for k in range(1, most + 1)
    ]
    return min(costs)[1]


@wrong(
    "01-worth",
    advice="is each number of them tried",
    note="They try enough for the example; `most` says how far to go.",
)
def stops_at_64(hours, share, price, waiting, most):
    return _tried(hours, share, price, waiting, min(64, most))


@right("01-worth")
def from_the_last_to_the_first(hours, share, price, waiting, most):
    workers = np.arange(most, 0, -1)
    time = hours * (share + (1 - share) / workers)
    return workers[np.argmin(np.round(time * (workers * price + waiting), 9))]


@right("01-worth")
def from_a_formula(hours, share, price, waiting, most):
    """The cost falls up to a root, and rises after it."""
    if share * price == 0:
        return most
    best = sqrt((1 - share) * waiting / (share * price))
    near = [min(most, max(1, k)) for k in (floor(best), ceil(best))]
    return min(near, key=lambda k: (share + (1 - share) / k) * (k * price + waiting))


@wrong(
    "01-worth",
    advice="can a second worker be worth its price",
    note="They give up early: even then a second worker can be worth its price.",
)
def one_if_mostly_serial(hours, share, price, waiting, most):
    return 1 if share >= 0.9 else _tried(hours, share, price, waiting, most)
