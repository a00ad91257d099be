"""Answers to the exercises of lesson 15 that people give, and that are not right."""

from bisect import bisect_left
from functools import cache
from itertools import combinations, pairwise

import numpy as np

from demos.pipeline.parts.schedules import gpipe, naive, one_f_one_b
from lessons.source.sample_answers import Right, Wrong

# 15-1f1b


def everyone_runs_equally_far_ahead(stages, microbatches):
    """The warm-up of rank 0 on every rank."""
    return one_f_one_b(stages, microbatches)[:1] * stages


def runs_one_too_few_ahead(stages, microbatches):
    schedule = []
    for rank in range(stages):
        ahead = max(0, min(stages - 2 - rank, microbatches))
        order = [f"F{m}" for m in range(ahead)]
        for m in range(microbatches - ahead):
            order += [f"F{ahead + m}", f"B{m}"]
        schedule.append(order + [f"B{m}" for m in range(microbatches)][-ahead or 99 :])
    return schedule


def counts_ranks_from_the_wrong_end(stages, microbatches):
    return one_f_one_b(stages, microbatches)[::-1]


def forgets_small_batches(stages, microbatches):
    schedule = []
    for rank in range(stages):
        ahead = stages - 1 - rank
        order = [f"F{m}" for m in range(ahead)]
        for m in range(microbatches - ahead):
            order += [f"F{ahead + m}", f"B{m}"]
        order += [f"B{m}" for m in range(max(0, microbatches - ahead), microbatches)]
        schedule.append(order)
    return schedule


def writes_each_row_as_a_string(stages, microbatches):
    return [" ".join(order) for order in one_f_one_b(stages, microbatches)]


def forgets_the_last_backwards(stages, microbatches):
    return [
        order[: 2 * microbatches - (stages - 1 - rank)]
        for rank, order in enumerate(one_f_one_b(stages, microbatches))
    ]


def adds_to_what_it_gave_before(stages, microbatches, schedule=[]):  # noqa: B006
    schedule += one_f_one_b(stages, microbatches)
    return schedule


def numbers_from_one(stages, microbatches):
    return [
        [f"{work[0]}{int(work[1:]) + 1}" for work in order]
        for order in one_f_one_b(stages, microbatches)
    ]


def backwards_newest_first(stages, microbatches):
    """As 1F1B, but the backwards that are left come in the wrong order."""
    return [
        order[: 2 * microbatches - min(stages - 1 - rank, microbatches)]
        + order[2 * microbatches - min(stages - 1 - rank, microbatches) :][::-1]
        for rank, order in enumerate(one_f_one_b(stages, microbatches))
    ]


def right_below_eight_stages(stages, microbatches):
    return (one_f_one_b if stages < 8 else gpipe)(stages, microbatches)


def one_forward_too_many_later(stages, microbatches):
    """Begins as 1F1B does, and then two forwards come before two backwards."""
    schedule = []
    for rank, order in enumerate(one_f_one_b(stages, microbatches)):
        at = min(stages - rank, microbatches)
        if len(order) > at + 2 and order[at + 1][0] == "F":
            order = [*order[:at], order[at + 1], order[at], *order[at + 2 :]]
        schedule.append(order)
    return schedule


def keeps_count(stages, microbatches):
    """Go back whenever the room is used up, else forward."""
    schedule = []
    for rank in range(stages):
        order, forwards, backwards = (), 0, 0
        while backwards < microbatches:
            if forwards < microbatches and forwards - backwards < stages - rank:
                order, forwards = (*order, f"F{forwards}"), forwards + 1
            else:
                order, backwards = (*order, f"B{backwards}"), backwards + 1
        schedule.append(order)
    return tuple(schedule)


def with_its_stage_in_front(stages, microbatches):
    return [
        [f"{rank}{work}" for work in order]
        for rank, order in enumerate(one_f_one_b(stages, microbatches))
    ]


# 15-balance


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
            if counts and sum(held) + time <= limit and stages - len(counts) < left:
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


WRONG = {
    "15-beat-gpipe": [
        Wrong("gpipe", gpipe(2, 4), "only a backward makes room"),
        Wrong(
            "naive",
            naive(2, 4),
            "16 slots, and GPipe needs 10",
            note="Keeps only one micro-batch, and is proud of it: ask for the time.",
        ),
        Wrong(
            "everyone_alternates_after_two",
            [order.split() for order in ["F0 F1 B0 B1 F2 F3 B2 B3"] * 2],
            "12 slots, and GPipe needs 10.*Could that come earlier",
            note="Two small GPipes in a row: people fill the memory, then empty it.",
        ),
        Wrong(
            "same_row_on_both",
            [order.split() for order in ["F0 F1 B0 F2 B1 F3 B2 B3"] * 2],
            "14 slots, and GPipe needs 10.*Could that come earlier",
            note="Right for rank 0. Rank 1 makes it wait: ask what ends its first gap.",
        ),
        Wrong(
            "last_two_backwards_swapped",
            [
                ["F0", "F1", "B0", "F2", "B1", "F3", "B3", "B2"],
                ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
            ],
            "11 slots, and GPipe needs 10.*something else be done in the gap",
        ),
        Wrong(
            "rows_as_strings",
            ["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"],
            "each rank needs a list, not a string",
        ),
        Wrong(
            "last_rank_runs_ahead",
            [
                ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
                ["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"],
            ],
            "everyone waits: rank 0 cannot start B0 before rank 1 has done B0",
            note="The right two lists, swapped: a deadlock.",
        ),
        Wrong(
            "three_micro_batches",
            [
                ["F0", "F1", "B0", "F2", "B1", "B2"],
                ["F0", "B0", "F1", "B1", "F2", "B2"],
            ],
            "each rank runs F0 to F3 and B0 to B3",
        ),
        Wrong(
            "forgets_the_last_backward",
            [
                ["F0", "F1", "B0", "F2", "B1", "F3", "B2"],
                ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
            ],
            "rank 0 \\| F0 F1 B0 F2 B1 F3 B2\\b.*each rank runs F0 to F3",
        ),
        Wrong("one_list_for_both", ["F0", "B0", "F1", "B1"], "not a string"),
    ],
    "15-1f1b": [
        Wrong(
            "gpipe",
            gpipe,
            "with how many forwards does this rank begin",
            note="Right order for one stage, so they think it is done: draw it.",
        ),
        Wrong("naive", naive, "rank 0 begins with 1 of its.*too few"),
        Wrong(
            "everyone_runs_equally_far_ahead",
            everyone_runs_equally_far_ahead,
            "cannot start|with how many forwards",
            note="Forgets that the last rank can go back at once.",
        ),
        Wrong("runs_one_too_few_ahead", runs_one_too_few_ahead, "That is too few"),
        Wrong(
            "counts_ranks_from_the_wrong_end",
            counts_ranks_from_the_wrong_end,
            "everyone waits.*one finger per rank",
            note="Rank 0 is the first stage, not the last: the lists deadlock.",
        ),
        Wrong(
            "forgets_small_batches",
            forgets_small_batches,
            "fewer micro-batches than stages: how many forwards can a rank run ahead",
            note="Forgets that there may be fewer micro-batches than stages below.",
        ),
        Wrong(
            "forgets_the_last_backwards",
            forgets_the_last_backwards,
            "never runs B.*each once, and a backward after its forward",
        ),
        Wrong(
            "writes_each_row_as_a_string",
            writes_each_row_as_a_string,
            "each rank needs a list, not a string",
        ),
        Wrong(
            "adds_to_what_it_gave_before",
            adds_to_what_it_gave_before,
            "one list for each of 3 ranks",
            note="A list as a default value is made once, and kept.",
        ),
        Wrong("numbers_from_one", numbers_from_one, "never runs F0"),
        Wrong("backwards_newest_first", backwards_newest_first, "first gap in which"),
        Wrong(
            "right_below_eight_stages", right_below_eight_stages, "\\(8, 8\\)|rank 1"
        ),
        Wrong(
            "one_forward_too_many_later",
            one_forward_too_many_later,
            "which backward could come earlier|how many stages come after",
        ),
    ],
    "15-balance": [
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
        Wrong("leaves_stages_empty", leaves_stages_empty, "at least one layer"),
        Wrong("returns_the_cuts", returns_the_cuts, "one number for each"),
        Wrong(
            "tries_whole_limits_only",
            tries_whole_limits_only,
            "every other way to cut",
            note="`range` over the possible times: right for whole numbers only.",
        ),
        Wrong("turned_round", turned_round, "every other way to cut"),
        Wrong(
            "as_equal_as_possible",
            makes_them_as_equal_as_possible,
            "every other way to cut",
            note="The smallest difference is not the smallest maximum.",
        ),
        Wrong("sorts_the_layers", sorts_the_layers, "who else uses|every other way"),
        Wrong("returns_the_sums", returns_the_sums, "together 5 layers"),
    ],
}

RIGHT = {
    "15-beat-gpipe": [
        Right(
            "in_tuples",
            (
                (
                    ("F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"),
                    ("F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"),
                ),
            ),
        ),
        Right(
            "the_micro_batches_in_another_order",
            [
                ["F3", "F1", "B3", "F2", "B1", "F0", "B2", "B0"],
                ["F3", "B3", "F1", "B1", "F2", "B2", "F0", "B0"],
            ],
        ),
    ],
    "15-1f1b": [
        Right("keeps_count", keeps_count),
        Right("with_its_stage_in_front", with_its_stage_in_front),
    ],
    "15-balance": [
        Right("in_a_table", in_a_table),
        Right("by_bisection", by_bisection),
    ],
}
