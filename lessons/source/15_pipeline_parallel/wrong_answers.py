"""Answers to the exercises of lesson 15 that people give, and that are not right."""

from demos.pipeline.parts.schedules import gpipe, naive, one_f_one_b
from lessons.source.sample_answers import Wrong

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


# 15-balance


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
        Wrong("naive", naive, "too few forwards"),
        Wrong(
            "everyone_runs_equally_far_ahead",
            everyone_runs_equally_far_ahead,
            "cannot start|with how many forwards",
            note="Forgets that the last rank can go back at once.",
        ),
        Wrong("runs_one_too_few_ahead", runs_one_too_few_ahead, "too few forwards"),
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
    ],
    "15-balance": [
        Wrong(
            "deals_equal_numbers",
            deals_equal_numbers,
            "Times count, not numbers",
            note="What `split` does by itself.",
        ),
        Wrong("gives_the_rest_to_the_last", gives_the_rest_to_the_last, "Times count"),
        Wrong(
            "fills_up_to_the_average",
            fills_up_to_the_average,
            "every other way to cut",
            note="Greedy filling looks right and often is; ask for 2, 2, 2, 9, 1, 1.",
        ),
        Wrong("leaves_stages_empty", leaves_stages_empty, "at least one layer"),
        Wrong("returns_the_cuts", returns_the_cuts, "one number for each"),
    ],
}
