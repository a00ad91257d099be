"""Answers to the exercises of lesson 15a that people give, and that are not right."""

import math
from bisect import bisect_left
from functools import cache
from itertools import combinations, pairwise

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.pipeline.schedule_rules import bubble, timetable
from parallel_by_hand.pipeline.schedules import gpipe

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
    advice="the fewest|does your answer try it",
    note="(p - 1)/m, as in Megatron-LM's papers: another definition.",
)
def waste_beside_the_work(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if (stages - 1) / m <= waste), None)


@wrong(
    "15a-microbatches",
    advice="the bubble of a single stage: is it at most 0",
    note="`<` where the text says at most: a single stage wastes 0, and 0 is allowed.",
)
def strictly_less(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if (stages - 1) / (m + stages - 1) < waste), None)


@wrong(
    "15a-microbatches",
    advice="the fewest",
    note="As many as possible instead of as few as are enough.",
)
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
    advice="makes sure that its bubble",
    note="The size of a micro-batch instead of their number.",
)
def samples_in_each(stages, batch, waste):
    m = fewest_by_timetable(stages, batch, waste)
    return m and batch // m


@right("15a-microbatches")
def by_the_busy_share(stages, batch, waste):
    fits = (m for m in range(1, batch + 1) if batch % m == 0)
    return next((m for m in fits if m / (m + stages - 1) >= 1 - waste), None)


@right("15a-microbatches")
def fewest_by_timetable(stages, batch, waste):
    """Draws every picture, and measures it."""
    for m in range(1, batch + 1):
        if batch % m == 0 and bubble(timetable(gpipe(stages, m))) <= waste + 1e-12:
            return m
    return None


# 15a-balance


def _slowest(times, counts):
    edges = [sum(counts[:stage]) for stage in range(len(counts) + 1)]
    return max(sum(times[a:b]) for a, b in pairwise(edges))


def _counts(times, stages):
    for cuts in combinations(range(1, len(times)), stages - 1):
        yield [b - a for a, b in pairwise((0, *cuts, len(times)))]


@wrong(
    "15a-balance",
    advice="which layers are in it",
    note="The slowest stage is right, and the list begins with the last one.",
)
def turned_round(times, stages):
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))[::-1]


@wrong(
    "15a-balance",
    advice="together: there are 5",
    note="The times of the stages instead of their numbers of layers.",
)
def returns_the_sums(times, stages):
    counts = min(_counts(times, stages), key=lambda c: _slowest(times, c))
    edges = [sum(counts[:stage]) for stage in range(stages + 1)]
    return [sum(times[a:b]) for a, b in pairwise(edges)]


@wrong(
    "15a-balance",
    advice="the order of the layers",
    note="As for tasks on workers (lesson 6). But neighbouring layers stay "
    "together, in order.",
)
def sorts_a_copy(times, stages):
    times = sorted(times)
    return min(_counts(times, stages), key=lambda c: _slowest(times, c))


@right("15a-balance")
def in_a_table(times, stages):
    """Dynamic programming."""

    @cache
    def best(layers, stages):
        if stages == 1:
            return sum(times[:layers]), (layers,)
        return min(
            (max(best(cut, stages - 1)[0], sum(times[cut:layers])),
             (*best(cut, stages - 1)[1], layers - cut))
            for cut in range(stages - 1, layers)
        )  # fmt: skip

    return list(best(len(times), stages)[1])


@right("15a-balance")
def by_bisection(times, stages):
    """Over all possible times of a stage."""
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

    return fill(limits[bisect_left(limits, True, key=fits)])


@wrong(
    "15a-balance",
    advice="times count, not their number",
    note="What `split` does by itself.",
)
def deals_equal_numbers(times, stages):
    return [len(times) // stages + (s < len(times) % stages) for s in range(stages)]


@wrong(
    "15a-balance",
    advice="every other way to cut",
    note="Greedy filling looks right and often is; ask for 2, 2, 2, 9, 1, 1.",
)
def fills_up_to_the_average(times, stages):
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


@wrong(
    "15a-balance",
    advice="has no layer",
    note="One stage has everything: nothing says that the others must have a "
    "layer, they think.",
)
def leaves_stages_empty(times, stages):
    return [len(times)] + [0] * (stages - 1)
