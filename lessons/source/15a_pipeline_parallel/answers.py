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
from lessons.source.sample_answers import right, wrong

# 15a-microbatches


@wrong(
    "15a-microbatches",
    advice="which numbers divide",
    note="Solves for m and rounds up: right for the bubble, but 64 samples do "
    "not make 12 equal parts.",
)
def formula_alone(stages, batch, waste):
    return max(1, math.ceil((stages - 1) * (1 - waste) / waste)) if waste else None


@wrong(
    "15a-microbatches",
    advice="the fewest|m = 18: does your answer try it",
    note="(p - 1)/m, as in Megatron-LM's papers: another definition.",
)
def waste_beside_the_work(stages, batch, waste):
    """(p - 1) / m: the idle time over the work, not over the whole picture."""
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if (stages - 1) / m <= waste), None)


@wrong("15a-microbatches", advice="the bubble of a single stage: is it at most 0")
def strictly_less(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if (stages - 1) / (m + stages - 1) < waste), None)


@wrong("15a-microbatches", advice="the fewest")
def one_sample_each(stages, batch, waste):
    return batch if (stages - 1) / (batch + stages - 1) <= waste else None


@wrong(
    "15a-microbatches",
    advice="what to return when even with",
    note="Forgets that it may be impossible.",
)
def always_finds_one(stages, batch, waste):
    fits = [m for m in range(1, batch + 1) if batch % m == 0]
    return next((m for m in fits if (stages - 1) / (m + stages - 1) <= waste), batch)


@wrong(
    "15a-microbatches",
    advice="the fewest|does your answer try it",
    note="The last rank starts p - 1 slots late, not p.",
)
def counts_stages_not_gaps(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if stages / (m + stages) <= waste), None)


@wrong("15a-microbatches", advice="how many samples in each")
def samples_in_each(stages, batch, waste):
    m = fewest_by_timetable(stages, batch, waste)
    return m and batch // m


@wrong("15a-microbatches", advice="m = 18: does your answer try it")
def powers_of_two(stages, batch, waste):
    m = 1
    while m <= batch:
        if batch % m == 0 and (stages - 1) / (m + stages - 1) <= waste:
            return m
        m *= 2
    return None


@wrong("15a-microbatches", advice="makes sure|what to return|which numbers|the fewest")
def rounds_down(stages, batch, waste):
    m = max(1, int((stages - 1) * (1 - waste) / waste)) if waste else batch
    while batch % m:
        m += 1
    return m


@wrong(
    "15a-microbatches",
    advice="m = 12, whose bubble is exactly 0.2: what does your answer say of it",
    note="3 x 0.8 / 0.2 is 12.000000000000002 here: compare the bubbles.",
)
def solves_in_floating_point(stages, batch, waste):
    """3 x 0.8 / 0.2 comes out a little above 12, and is rounded up to 13."""
    if stages == 1 or waste == 0:
        return 1 if stages == 1 else None
    least = max(1, math.ceil((stages - 1) * (1 - waste) / waste))
    return next((m for m in range(least, batch + 1) if batch % m == 0), None)


@wrong(
    "15a-microbatches",
    advice="what to return when even with|makes sure that its bubble",
    note="33.3333 % is more than 0.3333.",
)
def compares_whole_per_cents(stages, batch, waste):
    idle = {m: round((stages - 1) / (m + stages - 1), 2) for m in range(1, batch + 1)}
    return next((m for m in idle if batch % m == 0 and idle[m] <= waste), None)


@wrong(
    "15a-microbatches",
    advice="what to return when even with one sample in each micro-batch 33.3333 %",
)
def allows_a_thousandth_more(stages, batch, waste):
    idle = {m: (stages - 1) / (m + stages - 1) for m in range(1, batch + 1)}
    return next((m for m in idle if batch % m == 0 and idle[m] <= waste + 1e-3), None)


@wrong("15a-microbatches", advice="1009.*Recursion")
def one_call_for_each_number(stages, batch, waste, m=1):
    """Python allows about a thousand calls inside each other."""
    if m > batch:
        return None
    if batch % m == 0 and (stages - 1) / (m + stages - 1) <= waste:
        return m
    return one_call_for_each_number(stages, batch, waste, m + 1)


@wrong("15a-microbatches", advice="m = 7: does your answer try")
def up_to_half_the_batch(stages, batch, waste):
    fits = [m for m in range(1, max(2, batch // 2 + 1)) if batch % m == 0]
    return next((m for m in fits if (stages - 1) / (m + stages - 1) <= waste), None)


@wrong("15a-microbatches", advice="makes sure that its bubble is at")
def nearest_divisor(stages, batch, waste):
    if stages == 1 or waste == 0:
        return 1 if stages == 1 else None
    least = (stages - 1) * (1 / waste - 1)
    fits = [m for m in range(1, batch + 1) if batch % m == 0]
    return min(fits, key=lambda m: abs(m - least)) if least <= batch else None


@wrong("15a-microbatches", advice="the bubble of a single stage")
def no_waste_is_impossible(stages, batch, waste):
    return from_the_formula(stages, batch, waste) if waste else None


@wrong("15a-microbatches", advice="keeps from its earlier")
def remembers_each_batch(stages, batch, waste, known={}):  # noqa: B006
    if (stages, batch) not in known:
        known[stages, batch] = from_the_formula(stages, batch, waste)
    return known[stages, batch]


remembers_each_batch.__module__ = "__main__"  # as if defined in a notebook


@right("15a-microbatches")
def by_the_busy_share(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if m / (m + stages - 1) >= 1 - waste), None)


@right("15a-microbatches")
def in_decimals(stages, batch, waste):
    for m in range(1, batch + 1):
        if batch % m == 0 and stages - 1 <= Decimal(str(waste)) * (m + stages - 1):
            return m


@right("15a-microbatches")
def fewest_by_timetable(stages, batch, waste):
    """Draws every picture, and measures it."""
    for m in range(1, batch + 1):
        if batch % m == 0 and bubble(timetable(gpipe(stages, m))) <= waste + 1e-12:
            return m
    return None


@right("15a-microbatches")
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


@wrong(
    "15a-balance",
    advice="0.6 is possible.*how finely does your answer tell times apart",
    note="`range` over the possible times: right for whole numbers only.",
)
def tries_whole_limits_only(times, stages):
    """Right for whole numbers: no limit below 1 is tried, and none between two."""
    for limit in range(1, int(sum(times)) + 2):
        for counts in _counts(times, stages):
            if _slowest(times, counts) <= limit:
                return counts


@wrong("15a-balance", advice="every other way to cut")
def turned_round(times, stages):
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))[::-1]


@wrong(
    "15a-balance",
    advice="every other way to cut",
    note="The smallest difference is not the smallest maximum.",
)
def makes_them_as_equal_as_possible(times, stages):
    """The smallest difference between two stages is not the smallest maximum."""

    def spread(counts):
        edges = [sum(counts[:stage]) for stage in range(stages + 1)]
        sums = [sum(times[a:b]) for a, b in pairwise(edges)]
        return max(sums) - min(sums)

    return min(_counts(times, stages), key=spread)


@wrong("15a-balance", advice="who else uses")
def sorts_the_layers(times, stages):
    times.sort()
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))


@wrong("15a-balance", advice="together: there are 5")
def returns_the_sums(times, stages):
    counts = min(_counts(times, stages), key=lambda c: _slowest(times, c))
    edges = [sum(counts[:stage]) for stage in range(stages + 1)]
    return [sum(times[a:b]) for a, b in pairwise(edges)]


@wrong("15a-balance", advice="the order of the layers")
def sorts_a_copy(times, stages):
    times = sorted(times)
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))


@wrong("15a-balance", advice="has become.*who else uses")
def works_from_the_end(times, stages):
    """Right numbers, but `times` stays reversed."""
    times.reverse()
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))[::-1]


@wrong("15a-balance", advice="how finely does your")
def halves_to_a_twentieth(times, stages):
    """Bisection that stops when the limits are 0.05 apart."""
    return _halves_until(lambda low, high, halvings: high - low <= 0.05, times, stages)


@wrong(
    "15a-balance",
    advice="how finely does your",
    note="A 4096th of all times is left: compare the sums that occur, exactly.",
)
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


@wrong("15a-balance", advice="every other way to cut")
def tries_a_thousand_ways(times, stages):
    ways = islice(_counts(times, stages), 1000)
    return min(ways, key=lambda c: _slowest(times, c))


@wrong("15a-balance", advice="keeps from its earlier")
def remembers_each_length(times, stages, known={}):  # noqa: B006
    if (len(times), stages) not in known:
        ways = _counts(times, stages)
        known[len(times), stages] = min(ways, key=lambda c: _slowest(times, c))
    return known[len(times), stages]


remembers_each_length.__module__ = "__main__"  # as if defined in a notebook


@right("15a-balance")
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


@right("15a-balance")
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


@wrong(
    "15a-balance",
    advice="times count, not numbers",
    note="What `split` does by itself.",
)
def deals_equal_numbers(times, stages):
    return [len(times) // stages + (s < len(times) % stages) for s in range(stages)]


@wrong("15a-balance", advice="times count")
def gives_the_rest_to_the_last(times, stages):
    each = len(times) // stages
    return [each] * (stages - 1) + [len(times) - each * (stages - 1)]


@wrong(
    "15a-balance",
    advice="every other way to cut",
    note="Greedy filling looks right and often is; ask for 2, 2, 2, 9, 1, 1.",
)
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


@wrong("15a-balance", advice="has no layer")
def leaves_stages_empty(times, stages):
    return [len(times)] + [0] * (stages - 1)


@wrong("15a-balance", advice="one number for each")
def returns_the_cuts(times, stages):
    return list(range(1, stages))


@wrong("15a-balance", advice="every other way to cut")
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
