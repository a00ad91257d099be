"""Answers to the exercises of lesson 01 that people give, and that are not right."""

from statistics import mean, median

from demos.performance.speedup_laws import amdahl
from lessons.source.sample_answers import Wrong

# 01-metrics


def _all_four(samples, serial, parallel, workers):
    speedup = serial / parallel
    share = (1 / speedup - 1 / workers) / (1 - 1 / workers)
    return samples / parallel, speedup, speedup / workers, share


def takes_means(samples, one, many, workers):
    return _all_four(samples, mean(one), mean(many), workers)


def takes_the_middle_of_the_list(samples, one, many, workers):
    return _all_four(samples, one[len(one) // 2], many[len(many) // 2], workers)


def takes_the_upper_middle(samples, one, many, workers):
    return _all_four(
        samples, sorted(one)[len(one) // 2], sorted(many)[len(many) // 2], workers
    )


def throughput_per_worker(samples, one, many, workers):
    first, *rest = _all_four(samples, median(one), median(many), workers)
    return first / workers, *rest


def turns_the_speedup_round(samples, one, many, workers):
    first, speedup, *rest = _all_four(samples, median(one), median(many), workers)
    return first, 1 / speedup, *rest


def efficiency_in_per_cent(samples, one, many, workers):
    first, second, third, fourth = _all_four(
        samples, median(one), median(many), workers
    )
    return first, second, 100 * third, fourth


def share_is_what_is_lost(samples, one, many, workers):
    *rest, efficiency, _ = _all_four(samples, median(one), median(many), workers)
    return *rest, efficiency, 1 - efficiency


def share_from_the_limit(samples, one, many, workers):
    first, speedup, *rest = _all_four(samples, median(one), median(many), workers)
    return first, speedup, rest[0], 1 / speedup


def share_between_0_and_1(samples, one, many, workers):
    *rest, share = _all_four(samples, median(one), median(many), workers)
    return *rest, min(1, max(0, share))


def rounds_metrics(samples, one, many, workers):
    four = _all_four(samples, median(one), median(many), workers)
    return tuple(round(number, 2) for number in four)


def three_numbers(samples, one, many, workers):
    return _all_four(samples, median(one), median(many), workers)[:3]


# 01-fair


def divides_the_seconds(one, many):
    return one.seconds / many.seconds


def compares_steps(one, many):
    return (many.steps / many.seconds) / (one.steps / one.seconds)


def forgets_the_workers(one, many):
    return (many.batch_per_worker * many.steps / many.seconds) / (
        one.batch_per_worker * one.steps / one.seconds
    )


def forgets_the_batch(one, many):
    return (many.workers * many.steps / many.seconds) / (
        one.workers * one.steps / one.seconds
    )


def the_other_way_round(one, many):
    def rate(run):
        return run.workers * run.batch_per_worker * run.steps / run.seconds

    return rate(one) / rate(many)


def rounds_the_speedup(one, many):
    return round(1 / the_other_way_round(one, many), 2)


# 01-worth


def as_many_as_possible(hours, share, price, waiting, most):
    return most


def only_the_workers_cost(hours, share, price, waiting, most):
    return min(range(1, most + 1), key=lambda k: hours / amdahl(share, k) * k * price)


def pays_only_for_work(hours, share, price, waiting, most):
    return min(
        range(1, most + 1),
        key=lambda k: hours * price + hours / amdahl(share, k) * waiting,
    )


def half_must_be_used(hours, share, price, waiting, most):
    good = [k for k in range(1, most + 1) if amdahl(share, k) / k >= 0.5]
    return good[-1]


def forgets_the_last(hours, share, price, waiting, most):
    return min(
        range(1, max(2, most)),
        key=lambda k: hours / amdahl(share, k) * (k * price + waiting),
    )


def returns_the_cost(hours, share, price, waiting, most):
    return min(
        hours / amdahl(share, k) * (k * price + waiting) for k in range(1, most + 1)
    )


WRONG = {
    "01-metrics": [
        Wrong(
            "takes_means",
            takes_means,
            advice="median round|median of each list",
            note="One disturbed round moves the mean, and not the median.",
        ),
        Wrong(
            "takes_the_middle_of_the_list",
            takes_the_middle_of_the_list,
            advice="whatever its order",
            note="The median is the middle after sorting.",
        ),
        Wrong(
            "takes_the_upper_middle",
            takes_the_upper_middle,
            advice="halfway between",
            note="Of an even number of times, two are in the middle.",
        ),
        Wrong(
            "throughput_per_worker",
            throughput_per_worker,
            advice="all workers together",
            note="Divides by the workers a second time.",
        ),
        Wrong(
            "turns_the_speedup_round",
            turns_the_speedup_round,
            advice="above the line",
            note="New time by old time: below 1 when it is faster.",
        ),
        Wrong(
            "efficiency_in_per_cent",
            efficiency_in_per_cent,
            advice="1 if nobody",
            note="Right, and in another unit than the text asks for.",
        ),
        Wrong(
            "share_is_what_is_lost",
            share_is_what_is_lost,
            advice="Amdahl's law",
            note="The most common one: takes the idle share for the serial share. With "
            "many workers a small serial share makes a large idle one.",
        ),
        Wrong(
            "share_from_the_limit",
            share_from_the_limit,
            advice="Amdahl's law",
            note="1/s is the limit for many workers, not the speedup of these.",
        ),
        Wrong(
            "share_between_0_and_1",
            share_between_0_and_1,
            advice="not between 0 and 1",
            note="Hides that the law does not hold for these times.",
        ),
        Wrong(
            "rounds_metrics",
            rounds_metrics,
            advice="nearly right: is something rounded",
            note="Everything is understood; what is rounded cannot be computed with.",
        ),
        Wrong(
            "three_numbers",
            three_numbers,
            advice="four numbers",
            note="Stops before the equation. Point at hint 2.",
        ),
    ],
    "01-fair": [
        Wrong(
            "divides_the_seconds",
            divides_the_seconds,
            advice="Is that the same work",
            note="The mistake of the reports, repeated.",
        ),
        Wrong(
            "compares_steps",
            compares_steps,
            advice="each worker trains on a batch|how many images",
            note="A step of four workers is more work than a step of one.",
        ),
        Wrong(
            "forgets_the_workers",
            forgets_the_workers,
            advice="each worker trains on a batch|how many images",
            note="Counts the images of one worker only.",
        ),
        Wrong(
            "forgets_the_batch",
            forgets_the_batch,
            advice="how large is a step",
            note="Right for two claims of three: the batches are equal there.",
        ),
        Wrong(
            "the_other_way_round",
            the_other_way_round,
            advice="above the line",
            note="A run that is twice as fast gets 0.5.",
        ),
        Wrong(
            "rounds_the_speedup",
            rounds_the_speedup,
            advice="nearly right: is something rounded",
            note="Right but for the rounding.",
        ),
    ],
    "01-worth": [
        Wrong(
            "as_many_as_possible",
            as_many_as_possible,
            advice="waiting costs nothing",
            note="The fastest, whatever it costs.",
        ),
        Wrong(
            "only_the_workers_cost",
            only_the_workers_cost,
            advice="your waiting",
            note="Then one worker is always the cheapest.",
        ),
        Wrong(
            "pays_only_for_work",
            pays_only_for_work,
            advice="paid in the serial part|all hours of all",
            note="Workers that wait are paid too; this is the point of the exercise.",
        ),
        Wrong(
            "half_must_be_used",
            half_must_be_used,
            advice="waiting costs nothing",
            note="A rule of thumb, at least half of the efficiency, and not the cost.",
        ),
        Wrong(
            "forgets_the_last",
            forgets_the_last,
            advice="ends at n - 1",
            note="range(1, most) ends before most.",
        ),
        Wrong(
            "returns_the_cost",
            returns_the_cost,
            advice="whole number of workers",
            note="The lowest cost, and not the number of workers that has it.",
        ),
    ],
}
