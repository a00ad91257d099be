"""Answers to the exercises of lesson 15a that people give, and that are not right."""

import math
from bisect import bisect_left
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, islice, pairwise

import numpy as np

from demos.pipeline.parts.schedule_rules import bubble, timetable
from demos.pipeline.parts.schedules import gpipe
from lessons.source.sample_answers import Right, Wrong

# 15a-microbatches


def formula_alone(stages, batch, waste):
    return max(1, math.ceil((stages - 1) * (1 - waste) / waste)) if waste else None


def waste_beside_the_work(stages, batch, waste):
    """(p - 1) / m: the idle time over the work, not over the whole picture."""
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if (stages - 1) / m <= waste), None)


def strictly_less(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if (stages - 1) / (m + stages - 1) < waste), None)


def one_sample_each(stages, batch, waste):
    return batch if (stages - 1) / (batch + stages - 1) <= waste else None


def always_finds_one(stages, batch, waste):
    fits = [m for m in range(1, batch + 1) if batch % m == 0]
    return next((m for m in fits if (stages - 1) / (m + stages - 1) <= waste), batch)


def counts_stages_not_gaps(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if stages / (m + stages) <= waste), None)


def samples_in_each(stages, batch, waste):
    m = fewest_by_timetable(stages, batch, waste)
    return m and batch // m


def powers_of_two(stages, batch, waste):
    m = 1
    while m <= batch:
        if batch % m == 0 and (stages - 1) / (m + stages - 1) <= waste:
            return m
        m *= 2
    return None


def rounds_down(stages, batch, waste):
    m = max(1, int((stages - 1) * (1 - waste) / waste)) if waste else batch
    while batch % m:
        m += 1
    return m


def solves_in_floating_point(stages, batch, waste):
    """3 x 0.8 / 0.2 comes out a little above 12, and is rounded up to 13."""
    if stages == 1 or waste == 0:
        return 1 if stages == 1 else None
    least = max(1, math.ceil((stages - 1) * (1 - waste) / waste))
    return next((m for m in range(least, batch + 1) if batch % m == 0), None)


def compares_whole_per_cents(stages, batch, waste):
    idle = {m: round((stages - 1) / (m + stages - 1), 2) for m in range(1, batch + 1)}
    return next((m for m in idle if batch % m == 0 and idle[m] <= waste), None)


def allows_a_thousandth_more(stages, batch, waste):
    idle = {m: (stages - 1) / (m + stages - 1) for m in range(1, batch + 1)}
    return next((m for m in idle if batch % m == 0 and idle[m] <= waste + 1e-3), None)


def one_call_for_each_number(stages, batch, waste, m=1):
    """Python allows about a thousand calls inside each other."""
    if m > batch:
        return None
    if batch % m == 0 and (stages - 1) / (m + stages - 1) <= waste:
        return m
    return one_call_for_each_number(stages, batch, waste, m + 1)


def up_to_half_the_batch(stages, batch, waste):
    fits = [m for m in range(1, max(2, batch // 2 + 1)) if batch % m == 0]
    return next((m for m in fits if (stages - 1) / (m + stages - 1) <= waste), None)


def nearest_divisor(stages, batch, waste):
    if stages == 1 or waste == 0:
        return 1 if stages == 1 else None
    least = (stages - 1) * (1 / waste - 1)
    fits = [m for m in range(1, batch + 1) if batch % m == 0]
    return min(fits, key=lambda m: abs(m - least)) if least <= batch else None


def no_waste_is_impossible(stages, batch, waste):
    return from_the_formula(stages, batch, waste) if waste else None


def remembers_each_batch(stages, batch, waste, known={}):  # noqa: B006
    if (stages, batch) not in known:
        known[stages, batch] = from_the_formula(stages, batch, waste)
    return known[stages, batch]


remembers_each_batch.__module__ = "__main__"  # as if defined in a notebook


def by_the_busy_share(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if m / (m + stages - 1) >= 1 - waste), None)


def in_decimals(stages, batch, waste):
    for m in range(1, batch + 1):
        if batch % m == 0 and stages - 1 <= Decimal(str(waste)) * (m + stages - 1):
            return m


def fewest_by_timetable(stages, batch, waste):
    """Draws every picture, and measures it."""
    for m in range(1, batch + 1):
        if batch % m == 0 and bubble(timetable(gpipe(stages, m))) <= waste + 1e-12:
            return m
    return None


def from_the_formula(stages, batch, waste):
    """Solves for m exactly, and goes up to the next divisor."""
    if stages == 1:
        return 1
    exact = Fraction(waste).limit_denominator(10**6)
    least = max(1, math.ceil((stages - 1) * (1 - exact) / exact)) if exact else batch
    divisors = [m for m in range(least, batch + 1) if batch % m == 0] if exact else []
    return np.int64(divisors[0]) if divisors else None


# 15a-balance


def _slowest(times, counts):
    edges = [sum(counts[:stage]) for stage in range(len(counts) + 1)]
    return max(sum(times[a:b]) for a, b in pairwise(edges))


def _counts(times, stages):
    for cuts in combinations(range(1, len(times)), stages - 1):
        yield [b - a for a, b in pairwise((0, *cuts, len(times)))]


def tries_whole_limits_only(times, stages):
    """Right for whole numbers: no limit below 1 is tried, and none between two."""
    for limit in range(1, int(sum(times)) + 2):
        for counts in _counts(times, stages):
            if _slowest(times, counts) <= limit:
                return counts


def turned_round(times, stages):
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))[::-1]


def makes_them_as_equal_as_possible(times, stages):
    """The smallest difference between two stages is not the smallest maximum."""

    def spread(counts):
        edges = [sum(counts[:stage]) for stage in range(stages + 1)]
        sums = [sum(times[a:b]) for a, b in pairwise(edges)]
        return max(sums) - min(sums)

    return min(_counts(times, stages), key=spread)


def sorts_the_layers(times, stages):
    times.sort()
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))


def returns_the_sums(times, stages):
    counts = min(_counts(times, stages), key=lambda c: _slowest(times, c))
    edges = [sum(counts[:stage]) for stage in range(stages + 1)]
    return [sum(times[a:b]) for a, b in pairwise(edges)]


def sorts_a_copy(times, stages):
    times = sorted(times)
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))


def works_from_the_end(times, stages):
    """Right numbers, but `times` stays reversed."""
    times.reverse()
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))[::-1]


def halves_to_a_twentieth(times, stages):
    """Bisection that stops when the limits are 0.05 apart."""
    return _halves_until(lambda low, high, halvings: high - low <= 0.05, times, stages)


def halves_twelve_times(times, stages):
    return _halves_until(lambda low, high, halvings: halvings == 12, times, stages)


def _halves_until(is_enough, times, stages):
    low, high, halvings = max(times), sum(times), 0
    ways = list(_counts(times, stages))[::-1]
    while not is_enough(low, high, halvings):
        middle = (low + high) / 2
        fits = any(_slowest(times, c) <= middle for c in ways)
        low, high = (low, middle) if fits else (middle, high)
        halvings += 1
    return next(c for c in ways if _slowest(times, c) <= high)


def tries_a_thousand_ways(times, stages):
    ways = islice(_counts(times, stages), 1000)
    return min(ways, key=lambda c: _slowest(times, c))


def remembers_each_length(times, stages, known={}):  # noqa: B006
    if (len(times), stages) not in known:
        ways = _counts(times, stages)
        known[len(times), stages] = min(ways, key=lambda c: _slowest(times, c))
    return known[len(times), stages]


remembers_each_length.__module__ = "__main__"  # as if defined in a notebook


def in_a_table(times, stages):
    """Dynamic programming; NumPy's whole numbers in NumPy's array."""

    @cache
    def best(layers, stages):
        if stages == 1:
            return sum(times[:layers]), (layers,)
        return min(
            (max(best(cut, stages - 1)[0], sum(times[cut:layers])),
             (*best(cut, stages - 1)[1], layers - cut))
            for cut in range(stages - 1, layers)
        )  # fmt: skip

    return np.array(best(len(times), stages)[1])


def by_bisection(times, stages):
    """Over all possible times of a stage; as numbers such as 2.0."""
    n = len(times)
    limits = sorted(sum(times[a:b]) for a, b in combinations(range(n + 1), 2))

    def fill(limit):
        counts, held = [], None
        for layer, time in enumerate(times):
            left = n - layer  # those that are left may each need a stage
            if counts and sum([*held, time]) <= limit and stages - len(counts) < left:
                counts[-1] += 1
                held.append(time)
            else:
                counts.append(1)
                held = [time]
        return counts

    def fits(limit):
        return limit >= max(times) and len(fill(limit)) <= stages

    counts = fill(limits[bisect_left(limits, True, key=fits)])
    return [float(count) for count in counts]


def deals_equal_numbers(times, stages):
    return [len(times) // stages + (s < len(times) % stages) for s in range(stages)]


def gives_the_rest_to_the_last(times, stages):
    each = len(times) // stages
    return [each] * (stages - 1) + [len(times) - each * (stages - 1)]


def fills_up_to_the_average(times, stages):
    """Greedy: close a stage when it has reached its share of the time."""
    share, counts, filled = sum(times) / stages, [0], 0.0
    for layer, time in enumerate(times):
        layers_left, stages_left = len(times) - layer, stages - len(counts)
        full = filled + time > share or layers_left <= stages_left
        if counts[-1] and stages_left and full:
            counts.append(0)
            filled = 0.0
        counts[-1] += 1
        filled += time
    return counts


def leaves_stages_empty(times, stages):
    return [len(times)] + [0] * (stages - 1)


def returns_the_cuts(times, stages):
    return list(range(1, stages))


def twice_the_mean_at_most(times, stages):
    most = -(-2 * len(times) // stages)
    cuts = (
        (0, *inner, len(times))
        for inner in combinations(range(1, len(times)), stages - 1)
    )
    ways = [[b - a for a, b in pairwise(way)] for way in cuts]

    def slowest(counts):
        edges = [sum(counts[:n]) for n in range(stages + 1)]
        return max(sum(times[a:b]) for a, b in pairwise(edges))

    return min((way for way in ways if max(way) <= most), key=slowest)


WRONG = {
    "15a-microbatches": [
        Wrong(
            "formula_alone",
            formula_alone,
            "which numbers divide",
            note="Solves for m and rounds up: right for the bubble, but 64 samples do "
            "not make 12 equal parts.",
        ),
        Wrong(
            "waste_beside_the_work",
            waste_beside_the_work,
            "the fewest|m = 18: does your answer try it",
            note="(p - 1)/m, as in Megatron-LM's papers: another definition.",
        ),
        Wrong(
            "strictly_less",
            strictly_less,
            "the bubble of a single stage: is it at most 0",
        ),
        Wrong("one_sample_each", one_sample_each, "the fewest"),
        Wrong(
            "always_finds_one",
            always_finds_one,
            "what to return when even with",
            note="Forgets that it may be impossible.",
        ),
        Wrong(
            "counts_stages_not_gaps",
            counts_stages_not_gaps,
            "the fewest|does your answer try it",
            note="The last rank starts p - 1 slots late, not p.",
        ),
        Wrong("samples_in_each", samples_in_each, "how many samples in each"),
        Wrong("powers_of_two", powers_of_two, "m = 18: does your answer try it"),
        Wrong(
            "rounds_down",
            rounds_down,
            "makes sure|what to return|which numbers|the fewest",
        ),
        Wrong(
            "solves_in_floating_point",
            solves_in_floating_point,
            "m = 12, whose bubble is exactly 0.2: what does your answer say of it",
            note="3 x 0.8 / 0.2 is 12.000000000000002 here: compare the bubbles.",
        ),
        Wrong(
            "compares_whole_per_cents",
            compares_whole_per_cents,
            "what to return when even with|makes sure that its bubble",
            note="33.3333 % is more than 0.3333.",
        ),
        Wrong(
            "allows_a_thousandth_more",
            allows_a_thousandth_more,
            "what to return when even with one sample in each micro-batch 33.3333 %",
        ),
        Wrong("one_call_for_each_number", one_call_for_each_number, "1009.*Recursion"),
        Wrong(
            "up_to_half_the_batch", up_to_half_the_batch, "m = 7: does your answer try"
        ),
        Wrong("nearest_divisor", nearest_divisor, "makes sure that its bubble is at"),
        Wrong(
            "no_waste_is_impossible",
            no_waste_is_impossible,
            "the bubble of a single stage",
        ),
        Wrong("remembers_each_batch", remembers_each_batch, "keeps from its earlier"),
    ],
    "15a-balance": [
        Wrong(
            "deals_equal_numbers",
            deals_equal_numbers,
            "times count, not numbers",
            note="What `split` does by itself.",
        ),
        Wrong("gives_the_rest_to_the_last", gives_the_rest_to_the_last, "times count"),
        Wrong(
            "fills_up_to_the_average",
            fills_up_to_the_average,
            "every other way to cut",
            note="Greedy filling looks right and often is; ask for 2, 2, 2, 9, 1, 1.",
        ),
        Wrong("leaves_stages_empty", leaves_stages_empty, "has no layer"),
        Wrong("returns_the_cuts", returns_the_cuts, "one number for each"),
        Wrong(
            "tries_whole_limits_only",
            tries_whole_limits_only,
            "0.6 is possible.*how finely does your answer tell times apart",
            note="`range` over the possible times: right for whole numbers only.",
        ),
        Wrong("turned_round", turned_round, "every other way to cut"),
        Wrong(
            "as_equal_as_possible",
            makes_them_as_equal_as_possible,
            "every other way to cut",
            note="The smallest difference is not the smallest maximum.",
        ),
        Wrong("sorts_the_layers", sorts_the_layers, "who else uses"),
        Wrong("sorts_a_copy", sorts_a_copy, "the order of the layers"),
        Wrong("works_from_the_end", works_from_the_end, "has become.*who else uses"),
        Wrong("halves_to_a_twentieth", halves_to_a_twentieth, "how finely does your"),
        Wrong(
            "halves_twelve_times",
            halves_twelve_times,
            "how finely does your",
            note="A 4096th of all times is left: compare the sums that occur, exactly.",
        ),
        Wrong("tries_a_thousand_ways", tries_a_thousand_ways, "every other way to cut"),
        Wrong("remembers_each_length", remembers_each_length, "keeps from its earlier"),
        Wrong("returns_the_sums", returns_the_sums, "together: there are 5"),
        Wrong(
            "twice_the_mean_at_most", twice_the_mean_at_most, "every other way to cut"
        ),
    ],
}

RIGHT = {
    "15a-microbatches": [
        Right("fewest_by_timetable", fewest_by_timetable),
        Right("from_the_formula", from_the_formula),
        Right("by_the_busy_share", by_the_busy_share),
        Right("in_decimals", in_decimals),
    ],
    "15a-balance": [
        Right("in_a_table", in_a_table),
        Right("by_bisection", by_bisection),
    ],
}
