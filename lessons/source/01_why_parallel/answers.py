"""Answers to the exercises of lesson 01 that people give: wrong, and unusual."""

from fractions import Fraction
from math import ceil, floor, sqrt
from operator import call
from statistics import mean, median, median_low

import numpy as np

from demos.performance.speedup_laws import amdahl
from lessons.source.sample_answers import right, wrong

# 01-metrics


def _all_four(samples, serial, parallel, workers):
    speedup = serial / parallel
    share = (1 / speedup - 1 / workers) / (1 - 1 / workers)
    return samples / parallel, speedup, speedup / workers, share


@wrong(
    "01-metrics",
    advice="is it the mean",
    note="One disturbed round moves the mean, and not the median.",
)
def takes_means(samples, one, many, workers):
    return _all_four(samples, mean(one), mean(many), workers)


@wrong("01-metrics", advice="keeps from its", given=call)
class KeepsTheTimeOfOne:
    """Between calls, for as many samples."""

    def __init__(self):
        self.alone = {}

    def __call__(self, samples, one, many, workers):
        alone = self.alone.setdefault(samples, median(one))
        return _all_four(samples, alone, median(many), workers)


@wrong(
    "01-metrics",
    advice="in which order do they stand",
    note="The median is the middle after sorting.",
)
def takes_the_middle_of_the_list(samples, one, many, workers):
    return _all_four(samples, one[len(one) // 2], many[len(many) // 2], workers)


@wrong(
    "01-metrics",
    advice="halfway between",
    note="Of an even number of times, two are in the middle.",
)
def takes_the_upper_middle(samples, one, many, workers):
    return _all_four(
        samples, sorted(one)[len(one) // 2], sorted(many)[len(many) // 2], workers
    )


@wrong(
    "01-metrics",
    advice="all workers together",
    note="Divides by the workers a second time.",
)
def throughput_per_worker(samples, one, many, workers):
    first, *rest = _all_four(samples, median(one), median(many), workers)
    return first / workers, *rest


@wrong(
    "01-metrics",
    advice="above the line",
    note="New time by old time: below 1 when it is faster.",
)
def turns_the_speedup_round(samples, one, many, workers):
    first, speedup, *rest = _all_four(samples, median(one), median(many), workers)
    return first, 1 / speedup, *rest


@wrong(
    "01-metrics",
    advice="1 if nobody",
    note="Right, and in another unit than the text asks for.",
)
def efficiency_in_per_cent(samples, one, many, workers):
    first, second, third, fourth = _all_four(
        samples, median(one), median(many), workers
    )
    return first, second, 100 * third, fourth


@wrong(
    "01-metrics",
    advice="the share that was lost",
    note="The most common one: takes the idle share for the serial share. With "
    "many workers a small serial share makes a large idle one.",
)
def share_is_what_is_lost(samples, one, many, workers):
    *rest, efficiency, _ = _all_four(samples, median(one), median(many), workers)
    return *rest, efficiency, 1 - efficiency


@wrong(
    "01-metrics",
    advice="is it that of these",
    note="1/s is the limit for many workers, not the speedup of these.",
)
def share_from_the_limit(samples, one, many, workers):
    first, speedup, *rest = _all_four(samples, median(one), median(many), workers)
    return first, speedup, rest[0], 1 / speedup


@wrong(
    "01-metrics",
    advice="not between 0 and 1",
    note="Hides that the law does not hold for these times.",
)
def share_between_0_and_1(samples, one, many, workers):
    *rest, share = _all_four(samples, median(one), median(many), workers)
    return *rest, min(1, max(0, share))


@wrong(
    "01-metrics",
    advice="nearly right: is something rounded",
    note="Everything is understood; what is rounded cannot be computed with.",
)
def rounds_metrics(samples, one, many, workers):
    four = _all_four(samples, median(one), median(many), workers)
    return tuple(round(number, 2) for number in four)


@wrong(
    "01-metrics",
    advice="four numbers",
    note="Stops before the equation. Point at hint 2.",
)
def three_numbers(samples, one, many, workers):
    return _all_four(samples, median(one), median(many), workers)[:3]


@wrong(
    "01-metrics",
    advice="has become .*who else uses",
    note="sort() changes the list of whoever called; median() needs no order.",
)
def sorts_the_lists_of_its_caller(samples, one, many, workers):
    one.sort()
    many.sort()
    return _all_four(samples, median(one), median(many), workers)


@wrong(
    "01-metrics", advice="why not the best round", note="A best round is luck as well."
)
def takes_the_best_round(samples, one, many, workers):
    return _all_four(samples, min(one), min(many), workers)


@wrong("01-metrics", advice="halfway between")
def takes_the_lower_middle(samples, one, many, workers):
    return _all_four(samples, median_low(one), median_low(many), workers)


@wrong(
    "01-metrics",
    advice="of the times, or of their ratios",
    note="Round 2 of one worker has nothing to do with round 2 of four.",
)
def takes_the_median_of_the_ratios(samples, one, many, workers):
    ratios = [a / b for a, b in zip(one, many, strict=False)]
    _, *rest = _all_four(samples, median(ratios), 1, workers)
    return samples / median(many), *rest


@wrong("01-metrics", advice="above 1: what does")
def efficiency_at_most_one(samples, one, many, workers):
    *rest, efficiency, share = _all_four(samples, median(one), median(many), workers)
    return *rest, min(1, efficiency), share


@wrong("01-metrics", advice="slower than one")
def speedup_at_least_one(samples, one, many, workers):
    together = median(many)
    _, *rest = _all_four(samples, max(median(one), together), together, workers)
    return samples / together, *rest


@wrong("01-metrics", advice="does its sign tell")
def share_without_its_sign(samples, one, many, workers):
    *rest, share = _all_four(samples, median(one), median(many), workers)
    return *rest, abs(share)


@wrong("01-metrics", advice="keeps from its earlier calls", given=call)
class RemembersByTimes:
    """But not by samples."""

    def __init__(self):
        self.known = {}

    def __call__(self, samples, one, many, workers):
        times = tuple(one), tuple(many), workers
        four = _all_four(samples, median(one), median(many), workers)
        return self.known.setdefault(times, four)


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
    advice="the work of each run: is it the same",
    note="The mistake of the reports, repeated.",
)
def divides_the_seconds(one, many):
    return one.seconds / many.seconds


@wrong(
    "01-fair",
    advice="do all runs train on as many images in one",
    note="A step of four workers is more work than a step of one.",
)
def compares_steps(one, many):
    return (many.steps / many.seconds) / (one.steps / one.seconds)


@wrong(
    "01-fair",
    advice="speak of all of them, or of one",
    note="Counts the images of one worker only.",
)
def forgets_the_workers(one, many):
    return (many.batch_per_worker * many.steps / many.seconds) / (
        one.batch_per_worker * one.steps / one.seconds
    )


@wrong(
    "01-fair",
    advice="how large is a step",
    note="Right for two claims of three: the batches are equal there.",
)
def forgets_the_batch(one, many):
    return (many.workers * many.steps / many.seconds) / (
        one.workers * one.steps / one.seconds
    )


@wrong("01-fair", advice="above the line", note="A run that is twice as fast gets 0.5.")
def the_other_way_round(one, many):
    def rate(run):
        return run.workers * run.batch_per_worker * run.steps / run.seconds

    return rate(one) / rate(many)


@wrong(
    "01-fair",
    advice="nearly right: is something rounded",
    note="Right but for the rounding.",
)
def rounds_the_speedup(one, many):
    return round(1 / the_other_way_round(one, many), 2)


@wrong(
    "01-fair",
    advice="how many are there in each run",
    note="Counts the images of a step, and forgets how many steps there were.",
)
def one_step_is_one_step(one, many):
    return (many.workers * many.batch_per_worker / many.seconds) / (
        one.workers * one.batch_per_worker / one.seconds
    )


@wrong(
    "01-fair",
    advice="speak of all of them, or of one",
    note="That is the efficiency, if one worker is compared with many.",
)
def speedup_of_each_worker(one, many):
    return one.workers / many.workers / the_other_way_round(one, many)


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
    advice="keeps from its earlier calls",
    note="What is kept from call to call forgets with whom it was compared.",
    given=call,
)
class RemembersBySecondRun:
    """What is kept leaves out half of what it depends on."""

    def __init__(self):
        self.known = {}

    def __call__(self, one, many):
        return self.known.setdefault(many, 1 / the_other_way_round(one, many))


@wrong("01-fair", advice="keeps from its earlier", given=call)
class RemembersBySeconds:
    def __init__(self):
        self.known = {}

    def __call__(self, one, many):
        seconds = one.seconds, many.seconds
        return self.known.setdefault(seconds, 1 / the_other_way_round(one, many))


@wrong(
    "01-fair",
    advice="is anything rounded, or limited",
    note="More workers can be slower.",
)
def at_least_as_fast(one, many):
    return max(1.0, 1 / the_other_way_round(one, many))


@wrong("01-fair", advice="of one cut off")
def whole_images_per_second(one, many):
    rates = [r[0] * r[1] * r[2] // r.seconds for r in (one, many)]
    return rates[1] / rates[0]


# 01-worth


@wrong(
    "01-worth",
    advice="the fastest: is it the cheapest",
    note="The fastest, whatever it costs.",
)
def as_many_as_possible(hours, share, price, waiting, most):
    return most


@wrong(
    "01-worth", advice="your waiting", note="Then one worker is always the cheapest."
)
def only_the_workers_cost(hours, share, price, waiting, most):
    return min(range(1, most + 1), key=lambda k: hours / amdahl(share, k) * k * price)


@wrong(
    "01-worth",
    advice="who is paid while one works",
    note="Workers that wait are paid too; this is the point of the exercise.",
)
def pays_only_for_work(hours, share, price, waiting, most):
    return min(
        range(1, most + 1),
        key=lambda k: hours * price + hours / amdahl(share, k) * waiting,
    )


@wrong(
    "01-worth",
    advice="waiting, which costs nothing",
    note="A rule of thumb, at least half of the efficiency, and not the cost.",
)
def half_must_be_used(hours, share, price, waiting, most):
    good = [k for k in range(1, most + 1) if amdahl(share, k) / k >= 0.5]
    return good[-1]


@wrong(
    "01-worth",
    advice="is it among the numbers",
    note="range(1, most) ends before most.",
)
def forgets_the_last(hours, share, price, waiting, most):
    return min(
        range(1, max(2, most)),
        key=lambda k: hours / amdahl(share, k) * (k * price + waiting),
    )


@wrong(
    "01-worth",
    advice="whole number of workers",
    note="The lowest cost, and not the number of workers that has it.",
)
def returns_the_cost(hours, share, price, waiting, most):
    return min(
        hours / amdahl(share, k) * (k * price + waiting) for k in range(1, most + 1)
    )


@wrong(
    "01-worth",
    advice="are all up to",
    note="Enough for the example: `most` says how far to go.",
)
def stops_at_64(hours, share, price, waiting, most):
    return _tried(hours, share, price, waiting, min(64, most))


def _tried(hours, share, price, waiting, most):
    costs = [
        (hours / amdahl(share, k) * (k * price + waiting), k)
        for k in range(1, most + 1)
    ]
    return min(costs)[1]


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


@wrong("01-worth", advice="each number of them")
def tries_a_hundred_numbers(hours, share, price, waiting, most):
    def cost(k):
        return hours / amdahl(share, k) * (k * price + waiting)

    return min([*range(1, most + 1, max(1, most // 100)), most], key=cost)


@wrong("01-worth", advice="keeps from its earlier calls", given=call)
class ForgetsMost:
    """It remembers the answer for a job, but not how many could be had."""

    def __init__(self):
        self.known = {}

    def __call__(self, hours, share, price, waiting, most):
        def cost(k):
            return hours / amdahl(share, k) * (k * price + waiting)

        job = hours, share, price, waiting
        return self.known.setdefault(job, min(range(1, most + 1), key=cost))


@wrong("01-worth", advice="keeps from its earlier calls", given=call)
class ForgetsPrice:
    def __init__(self):
        self.known = {}

    def __call__(self, hours, share, price, waiting, most):
        job = hours, share, waiting, most
        best = _tried(hours, share, price, waiting, most)
        return self.known.setdefault(job, best)


@wrong("01-worth", advice="is it used as it is")
def small_share_is_none(hours, share, price, waiting, most):
    return _tried(hours, 0 if share < 0.01 else share, price, waiting, most)


@wrong("01-worth", advice="each number of them")
def tens_above_a_hundred(hours, share, price, waiting, most):
    def cost(k):
        return hours / amdahl(share, k) * (k * price + waiting)

    return min([*range(1, min(most, 100) + 1), *range(110, most + 1, 10)], key=cost)


@wrong(
    "01-worth",
    advice="the cost of each number of workers",
    note="Even then a second one can be worth its price.",
)
def one_if_mostly_serial(hours, share, price, waiting, most):
    return 1 if share >= 0.9 else _tried(hours, share, price, waiting, most)


@wrong(
    "01-worth",
    advice="what is left of its costs",
    note="Of a job of minutes nothing is left, and all numbers cost the same.",
)
def pays_for_whole_hours(hours, share, price, waiting, most):
    return _tried(int(hours), share, price, waiting, most)
