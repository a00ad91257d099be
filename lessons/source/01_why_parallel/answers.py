"""Answers to the exercises of lesson 01 that people give: wrong, and unusual."""

from fractions import Fraction
from math import ceil, floor, sqrt
from statistics import mean, median

import numpy as np

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.performance.speedup_laws import amdahl

# 01-metrics


def _all_four(samples, one, many, workers, middle=median):
    speedup = middle(one) / middle(many)
    share = (1 / speedup - 1 / workers) / (1 - 1 / workers)
    return samples / middle(many), speedup, speedup / workers, share


@wrong(
    "01-metrics",
    advice="does 1 / .* give your speedup",
    note="They take the idle share for the serial share: the most common one. With "
    "many workers a small serial share makes a large idle one.",
)
def share_is_what_is_lost(*job):
    *rest, efficiency, _ = _all_four(*job)
    return *rest, efficiency, 1 - efficiency


@wrong(
    "01-metrics",
    advice="the median round",
    note="They take the mean, which one disturbed round moves.",
)
def takes_means(*job):
    return _all_four(*job, middle=mean)


@wrong(
    "01-metrics",
    advice="all workers together",
    note="They divide by the workers a second time.",
)
def throughput_per_worker(*job):
    first, *rest = _all_four(*job)
    return first / job[-1], *rest


@wrong(
    "01-metrics",
    advice="above the line",
    note="They divide new time by old time: below 1 when it is faster.",
)
def turns_the_speedup_round(*job):
    first, speedup, *rest = _all_four(*job)
    return first, 1 / speedup, *rest


@wrong(
    "01-metrics",
    advice="if nobody ever waited",
    note="They give it in another unit than the text asks for.",
)
def efficiency_in_per_cent(*job):
    first, second, third, fourth = _all_four(*job)
    return first, second, 100 * third, fourth


@wrong(
    "01-metrics",
    advice="has become .*who else uses",
    note="They call sort(), which changes the caller's list; median() needs no order.",
)
def sorts_the_lists_of_its_caller(samples, one, many, workers):
    one.sort()
    many.sort()
    return _all_four(samples, one, many, workers)


@right("01-metrics")
def with_numpy(*job):
    return np.array(_all_four(*job, middle=np.median))


@right("01-metrics")
def with_fractions(samples, one, many, workers):
    one, many = ([Fraction(str(time)) for time in times] for times in (one, many))
    return (number for number in _all_four(samples, one, many, Fraction(workers)))


# 01-fair


def _rate(run):
    return run.workers * run.batch_per_worker * run.steps / run.seconds


@wrong(
    "01-fair",
    advice="twice the images",
    note="They repeat the mistake of the reports.",
)
def divides_the_seconds(one, many):
    return one.seconds / many.seconds


@wrong(
    "01-fair",
    advice="four workers for 10 s",
    note="They count the images of one worker only.",
)
def forgets_the_workers(one, many):
    return _rate(many) / many.workers / (_rate(one) / one.workers)


@wrong(
    "01-fair",
    advice="how many images is a step of each",
    note="They are right for two claims of three: the batches are equal there.",
)
def forgets_the_batch(one, many):
    return _rate(many._replace(batch_per_worker=1)) / _rate(
        one._replace(batch_per_worker=1)
    )


@wrong(
    "01-fair",
    advice="half the time: is that faster",
    note="They divide the other way round: a run that is twice as fast gets 0.5.",
)
def the_other_way_round(one, many):
    return _rate(one) / _rate(many)


@wrong(
    "01-fair",
    advice="is anything rounded",
    note="They round; what is rounded cannot be computed with.",
)
def rounds_the_speedup(one, many):
    return round(_rate(many) / _rate(one), 2)


@wrong(
    "01-fair",
    advice="are they slower|a step of each run",
    note="They think that more workers cannot be slower.",
)
def at_least_as_fast(one, many):
    return max(1.0, _rate(many) / _rate(one))


@right("01-fair")
def scales_the_time(one, many):
    w, b, steps, seconds = one
    work_of_many = Fraction(many[0] * many[1] * many[2], w * b * steps)
    return Fraction(seconds) * work_of_many / Fraction(many.seconds)


@right("01-fair")
def seconds_for_a_million_images(one, many):
    seconds = [np.float32(1e6 * r.seconds) / (r[0] * r[1] * r[2]) for r in (one, many)]
    return seconds[0] / seconds[1]


# 01-worth


def _costs(hours, share, price, waiting, most):
    numbers = range(1, most + 1)
    return {k: hours / amdahl(share, k) * (k * price + waiting) for k in numbers}


def _cheapest(*job):
    return min(costs := _costs(*job), key=costs.get)


@wrong(
    "01-worth",
    advice="16: .* 1, 2 and 16 workers cost",
    note="They take the fastest, whatever it costs.",
)
def as_many_as_possible(hours, share, price, waiting, most):
    return most


@wrong(
    "01-worth",
    advice="how often is your own hour",
    note="They forget their own waiting: then one worker is always the cheapest.",
)
def only_the_workers_cost(hours, share, price, waiting, most):
    return _cheapest(hours, share, price, 0, most)


@wrong(
    "01-worth",
    advice="who is paid while one works",
    note="They pay only for work, but workers that wait are paid too.",
)
def pays_only_for_work(hours, share, price, waiting, most):
    return _cheapest(hours, share, 0, waiting, most) if waiting else 1


@wrong(
    "01-worth",
    advice="5: .* free waiting",
    note="They follow a rule of thumb, half of the efficiency, and not the cost.",
)
def half_must_be_used(hours, share, price, waiting, most):
    return max(k for k in range(1, most + 1) if amdahl(share, k) / k >= 0.5)


@wrong(
    "01-worth",
    advice="is it among the numbers",
    note="They write range(1, most), which ends before most.",
)
def forgets_the_last(*job):
    *terms, most = job
    return _cheapest(*terms, max(1, most - 1))


@wrong(
    "01-worth",
    advice="whole number of workers",
    note="They return the lowest cost, and not the number of workers that has it.",
)
def returns_the_cost(*job):
    return min(_costs(*job).values())


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
