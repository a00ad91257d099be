"""Answers to the exercises of lesson 15b that people give, and that are not right."""

import numpy as np

from demos.pipeline.parts.schedules import gpipe, naive, one_f_one_b, zero_bubble
from lessons.source.sample_answers import Right, Wrong

# 15b-1f1b


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


adds_to_what_it_gave_before.__module__ = "__main__"  # as if defined in a notebook


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


def right_up_to_twelve_stages(stages, microbatches):
    schedule = one_f_one_b(stages, microbatches)
    return schedule[-12:-11] * (stages - 12) + schedule[-12:]


def two_digits(stages, microbatches):
    return [
        [f"{work[0]}{int(work[1:]) % 100}" for work in order]
        for order in one_f_one_b(stages, microbatches)
    ]


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


# 15b-zero-bubble


def _with_stages(schedule):
    return [[f"{rank}{work}" for work in order] for rank, order in enumerate(schedule)]


def _rows(text):
    return [row.split() for row in text.strip().splitlines()]


RIGHT_AFTER = _rows("""
    F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3
    F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 B3 W3
    F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3
""")
ALL_AT_THE_END = _rows("""
    F0 F1 F2 B0 F3 B1 B2 B3 W0 W1 W2 W3
    F0 F1 B0 F2 B1 F3 B2 B3 W0 W1 W2 W3
    F0 B0 F1 B1 F2 B2 F3 B3 W0 W1 W2 W3
""")
SPLIT_GPIPE = _rows("F0 F1 F2 F3 B0 B1 B2 B3 W0 W1 W2 W3\n" * 3)
ONLY_THE_LAST_IS_LATE = _rows("""
    F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3
    F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 B3 W3
    F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3
""")
TWO_FORWARDS_AHEAD = _rows("""
    F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 B3 W3
    F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3
    F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3
""")
FIRST_RANK_IS_LATE = _rows("""
    F0 F1 F2 B0 B1 W0 F3 B2 W1 B3 W2 W3
    F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3
    F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3
""")
W_BEFORE_B = _rows("""
    F0 F1 F2 W0 B0 F3 W1 B1 W2 B2 W3 B3
    F0 F1 W0 B0 F2 W1 B1 F3 W2 B2 W3 B3
    F0 W0 B0 F1 W1 B1 F2 W2 B2 F3 W3 B3
""")


WRONG = {
    "15b-beat-gpipe": [
        Wrong("gpipe", gpipe(2, 4), "what makes room, a backward"),
        Wrong(
            "naive",
            naive(2, 4),
            "16 slots, and 10 are possible.*the gap of rank 1 before F1",
            note="Keeps only one micro-batch, and is proud of it: ask for the time.",
        ),
        Wrong(
            "everyone_alternates_after_two",
            [order.split() for order in ["F0 F1 B0 B1 F2 F3 B2 B3"] * 2],
            "12 slots, and 10.*the gap of rank 1 before F2.*before that, on any rank",
            note="Two small GPipes in a row: people fill the memory, then empty it.",
        ),
        Wrong(
            "same_row_on_both",
            [order.split() for order in ["F0 F1 B0 F2 B1 F3 B2 B3"] * 2],
            "14 slots, and 10.*the gap of rank 1 before F2.*before that, on any rank",
            note="Right for rank 0. Rank 1 makes it wait: ask what ends its first gap.",
        ),
        Wrong(
            "last_two_backwards_swapped",
            [
                ["F0", "F1", "B0", "F2", "B1", "F3", "B3", "B2"],
                ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
            ],
            "11 slots, and 10.*the gap of rank 0 before B3.*anything else fill the gap",
        ),
        Wrong(
            "rows_as_strings",
            ["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"],
            "the form: for each rank a list, not a string",
        ),
        Wrong(
            "small_letters",
            [["f0", "f1", "b0", "f2", "b1", "f3", "b2", "b3"]] * 2,
            "'f0' is no instruction such as F0 or B12.*runs: F and B of micro-batches",
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
            "what each rank runs: F and B of micro-batches 0 to 3",
        ),
        Wrong(
            "forgets_the_last_backward",
            [
                ["F0", "F1", "B0", "F2", "B1", "F3", "B2"],
                ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
            ],
            "rank 0 \\| F0 F1 B0 F2 B1 F3 B2\\b.*what each rank runs: F and B",
        ),
        Wrong("one_list_for_both", ["F0", "B0", "F1", "B1"], "not a string"),
    ],
    "15b-1f1b": [
        Wrong(
            "gpipe",
            gpipe,
            "with how many forwards does this rank begin",
            note="Right order for one stage, so they think it is done: draw it.",
        ),
        Wrong("naive", naive, "which rank 0 begins, here 1: do they keep all"),
        Wrong(
            "everyone_runs_equally_far_ahead",
            everyone_runs_equally_far_ahead,
            "cannot start|with how many forwards",
            note="Forgets that the last rank can go back at once.",
        ),
        Wrong(
            "runs_one_too_few_ahead", runs_one_too_few_ahead, "here 1: do they keep all"
        ),
        Wrong(
            "counts_ranks_from_the_wrong_end",
            counts_ranks_from_the_wrong_end,
            "everyone waits.*one finger per rank",
            note="Rank 0 is the first stage, not the last: the lists deadlock.",
        ),
        Wrong(
            "forgets_small_batches",
            forgets_small_batches,
            "runs F2, and the last micro-batch is 1.*how many forwards can a rank run",
            note="Forgets that there may be fewer micro-batches than stages below.",
        ),
        Wrong(
            "forgets_the_last_backwards",
            forgets_the_last_backwards,
            "never runs B.*each once, and for the same micro-batch in this order",
        ),
        Wrong(
            "writes_each_row_as_a_string",
            writes_each_row_as_a_string,
            "the form: for each rank a list, not a string",
        ),
        Wrong(
            "adds_to_what_it_gave_before",
            adds_to_what_it_gave_before,
            "keeps from its earlier calls",
            note="A list as a default value is made once, and kept.",
        ),
        Wrong(
            "numbers_from_one",
            numbers_from_one,
            "runs F2, and the last micro-batch is 1",
        ),
        Wrong("backwards_newest_first", backwards_newest_first, "in which order does"),
        Wrong(
            "right_below_eight_stages", right_below_eight_stages, "\\(8, 8\\)|rank 1"
        ),
        Wrong(
            "right_up_to_twelve_stages",
            right_up_to_twelve_stages,
            "which rank 0 begins, here 12: do they keep all",
        ),
        Wrong("two_digits", two_digits, "2, 130.*runs F0 twice"),
        Wrong(
            "one_forward_too_many_later",
            one_forward_too_many_later,
            "which backward could come earlier|how many stages come after",
        ),
    ],
    "15b-zero-bubble": [
        Wrong(
            "right_after",
            RIGHT_AFTER,
            "16 slots.*the gap of rank 1 before B3.*before that, on any rank",
            note="The lists of the bench as they are.",
        ),
        Wrong(
            "whole_backwards",
            one_f_one_b(3, 4),
            "no W",
            note="1F1B itself: fewer instructions are fewer slots only on paper.",
        ),
        Wrong(
            "all_at_the_end",
            ALL_AT_THE_END,
            "kept by ranks.*what makes room, a W",
            note="Fills every gap and keeps the whole batch: ask for the memory.",
        ),
        Wrong("split_gpipe", SPLIT_GPIPE, "what makes room, a W"),
        Wrong("only_the_last_is_late", ONLY_THE_LAST_IS_LATE, "rank 2 before F2"),
        Wrong(
            "two_forwards_ahead",
            TWO_FORWARDS_AHEAD,
            "19 slots.*the gap of rank 2 before F2.*before that, on any rank",
        ),
        Wrong(
            "first_rank_is_late",
            FIRST_RANK_IS_LATE,
            "slots, and 14|what makes room, a W",
            note="The wrong end: nobody waits for a B of rank 0.",
        ),
        Wrong("w_before_b", W_BEFORE_B, "W0 before B0.*W needs the gradients"),
        Wrong(
            "forgets_the_last_w",
            [order[:-1] for order in zero_bubble(3, 4)],
            "never runs W3",
        ),
        Wrong(
            "same_row_on_all",
            zero_bubble(3, 4)[:1] * 3,
            "slots, and 14|everyone waits|what makes room, a W",
        ),
        Wrong(
            "rows_as_strings",
            [" ".join(order) for order in zero_bubble(3, 4)],
            "the form: for each rank a list, not a string",
        ),
        Wrong(
            "three_micro_batches",
            zero_bubble(3, 3),
            "F, B and W of micro-batches 0 to 3|3 micro-batches on each rank",
        ),
    ],
}

RIGHT = {
    "15b-beat-gpipe": [
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
            "in_an_array",
            np.array(
                [
                    ["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"],
                    ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
                ]
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
    "15b-1f1b": [
        Right("keeps_count", keeps_count),
        Right("with_its_stage_in_front", with_its_stage_in_front),
    ],
    "15b-zero-bubble": [
        Right("with_its_stage_in_front", _with_stages(zero_bubble(3, 4))),
        Right(
            "micro_batches_in_another_order",
            [
                [work[0] + "3102"[int(work[1])] for work in order]
                for order in zero_bubble(3, 4)
            ],
        ),
        Right("in_tuples", (tuple(map(tuple, zero_bubble(3, 4))),)),
    ],
}
