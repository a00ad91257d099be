"""Answers to the exercises of lesson 15b that people give, and that are not right."""

import numpy as np

from demos.pipeline.parts.schedules import gpipe, naive, one_f_one_b, zero_bubble
from lessons.source.sample_answers import right, wrong

# 15b-1f1b


@wrong(
    "15b-1f1b",
    advice="cannot start|with how many forwards",
    note="Forgets that the last rank can go back at once.",
)
def everyone_runs_equally_far_ahead(stages, microbatches):
    """The warm-up of rank 0 on every rank."""
    return one_f_one_b(stages, microbatches)[:1] * stages


@wrong("15b-1f1b", advice="here 1: do they keep all")
def runs_one_too_few_ahead(stages, microbatches):
    schedule = []
    for rank in range(stages):
        ahead = max(0, min(stages - 2 - rank, microbatches))
        order = [f"F{m}" for m in range(ahead)]
        for m in range(microbatches - ahead):
            order += [f"F{ahead + m}", f"B{m}"]
        schedule.append(order + [f"B{m}" for m in range(microbatches)][-ahead or 99 :])
    return schedule


@wrong(
    "15b-1f1b",
    advice="everyone waits.*one finger per rank",
    note="Rank 0 is the first stage, not the last: the lists deadlock.",
)
def counts_ranks_from_the_wrong_end(stages, microbatches):
    return one_f_one_b(stages, microbatches)[::-1]


@wrong(
    "15b-1f1b",
    advice="runs F2, and the last micro-batch is 1.*how many forwards can a rank run",
    note="Forgets that there may be fewer micro-batches than stages below.",
)
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


@wrong("15b-1f1b", advice="the form: for each rank a list, not a string")
def writes_each_row_as_a_string(stages, microbatches):
    return [" ".join(order) for order in one_f_one_b(stages, microbatches)]


@wrong(
    "15b-1f1b",
    advice="never runs B.*each once, and for the same micro-batch in this order",
)
def forgets_the_last_backwards(stages, microbatches):
    return [
        order[: 2 * microbatches - (stages - 1 - rank)]
        for rank, order in enumerate(one_f_one_b(stages, microbatches))
    ]


@wrong(
    "15b-1f1b",
    advice="keeps from its earlier calls",
    note="A list as a default value is made once, and kept.",
)
def adds_to_what_it_gave_before(stages, microbatches, schedule=[]):  # noqa: B006
    schedule += one_f_one_b(stages, microbatches)
    return schedule


adds_to_what_it_gave_before.__module__ = "__main__"  # as if defined in a notebook


@wrong("15b-1f1b", advice="runs F2, and the last micro-batch is 1")
def numbers_from_one(stages, microbatches):
    return [
        [f"{work[0]}{int(work[1:]) + 1}" for work in order]
        for order in one_f_one_b(stages, microbatches)
    ]


@wrong("15b-1f1b", advice="in which order does")
def backwards_newest_first(stages, microbatches):
    """As 1F1B, but the backwards that are left come in the wrong order."""
    return [
        order[: 2 * microbatches - min(stages - 1 - rank, microbatches)]
        + order[2 * microbatches - min(stages - 1 - rank, microbatches) :][::-1]
        for rank, order in enumerate(one_f_one_b(stages, microbatches))
    ]


@wrong("15b-1f1b", advice="\\(8, 8\\)|rank 1")
def right_below_eight_stages(stages, microbatches):
    return (one_f_one_b if stages < 8 else gpipe)(stages, microbatches)


@wrong("15b-1f1b", advice="which rank 0 begins, here 12: do they keep all")
def right_up_to_twelve_stages(stages, microbatches):
    schedule = one_f_one_b(stages, microbatches)
    return schedule[-12:-11] * (stages - 12) + schedule[-12:]


@wrong("15b-1f1b", advice="2, 130.*runs F0 twice")
def two_digits(stages, microbatches):
    return [
        [f"{work[0]}{int(work[1:]) % 100}" for work in order]
        for order in one_f_one_b(stages, microbatches)
    ]


@wrong(
    "15b-1f1b", advice="which backward could come earlier|how many stages come after"
)
def one_forward_too_many_later(stages, microbatches):
    """Begins as 1F1B does, and then two forwards come before two backwards."""
    schedule = []
    for rank, order in enumerate(one_f_one_b(stages, microbatches)):
        at = min(stages - rank, microbatches)
        if len(order) > at + 2 and order[at + 1][0] == "F":
            order = [*order[:at], order[at + 1], order[at], *order[at + 2 :]]
        schedule.append(order)
    return schedule


@right("15b-1f1b")
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


@right("15b-1f1b")
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


wrong("15b-beat-gpipe", advice="what makes room, a backward", name="gpipe")(gpipe(2, 4))
wrong(
    "15b-beat-gpipe",
    advice="16 slots, and 10 are possible.*the gap of rank 1 before F1",
    note="Keeps only one micro-batch, and is proud of it: ask for the time.",
    name="naive",
)(naive(2, 4))
wrong(
    "15b-beat-gpipe",
    advice="12 slots, and 10.*the gap of rank 1 before F2.*before that, on any rank",
    note="Two small GPipes in a row: people fill the memory, then empty it.",
    name="everyone_alternates_after_two",
)([order.split() for order in ["F0 F1 B0 B1 F2 F3 B2 B3"] * 2])
wrong(
    "15b-beat-gpipe",
    advice="14 slots, and 10.*the gap of rank 1 before F2.*before that, on any rank",
    note="Right for rank 0. Rank 1 makes it wait: ask what ends its first gap.",
    name="same_row_on_both",
)([order.split() for order in ["F0 F1 B0 F2 B1 F3 B2 B3"] * 2])
wrong(
    "15b-beat-gpipe",
    advice="11 slots, and 10.*the gap of rank 0 before B3.*anything else fill the gap",
    name="last_two_backwards_swapped",
)(
    [
        ["F0", "F1", "B0", "F2", "B1", "F3", "B3", "B2"],
        ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
    ]
)
wrong(
    "15b-beat-gpipe",
    advice="the form: for each rank a list, not a string",
    name="rows_as_strings",
)(["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"])
wrong(
    "15b-beat-gpipe",
    advice="'f0' is no instruction such as F0 or B12.*runs: F and B of micro-batches",
    name="small_letters",
)([["f0", "f1", "b0", "f2", "b1", "f3", "b2", "b3"]] * 2)
wrong(
    "15b-beat-gpipe",
    advice="everyone waits: rank 0 cannot start B0 before rank 1 has done B0",
    note="The right two lists, swapped: a deadlock.",
    name="last_rank_runs_ahead",
)(
    [
        ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
        ["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"],
    ]
)
wrong(
    "15b-beat-gpipe",
    advice="what each rank runs: F and B of micro-batches 0 to 3",
    name="three_micro_batches",
)(
    [
        ["F0", "F1", "B0", "F2", "B1", "B2"],
        ["F0", "B0", "F1", "B1", "F2", "B2"],
    ]
)
wrong(
    "15b-beat-gpipe",
    advice="rank 0 \\| F0 F1 B0 F2 B1 F3 B2\\b.*what each rank runs: F and B",
    name="forgets_the_last_backward",
)(
    [
        ["F0", "F1", "B0", "F2", "B1", "F3", "B2"],
        ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
    ]
)
wrong("15b-beat-gpipe", advice="not a string", name="one_list_for_both")(
    ["F0", "B0", "F1", "B1"]
)
wrong(
    "15b-1f1b",
    advice="with how many forwards does this rank begin",
    note="Right order for one stage, so they think it is done: draw it.",
    name="gpipe",
)(gpipe)
wrong("15b-1f1b", advice="which rank 0 begins, here 1: do they keep all", name="naive")(
    naive
)
wrong(
    "15b-zero-bubble",
    advice="16 slots.*the gap of rank 1 before B3.*before that, on any rank",
    note="The lists of the bench as they are.",
    name="right_after",
)(RIGHT_AFTER)
wrong(
    "15b-zero-bubble",
    advice="no W",
    note="1F1B itself: fewer instructions are fewer slots only on paper.",
    name="whole_backwards",
)(one_f_one_b(3, 4))
wrong(
    "15b-zero-bubble",
    advice="kept by ranks.*what makes room, a W",
    note="Fills every gap and keeps the whole batch: ask for the memory.",
    name="all_at_the_end",
)(ALL_AT_THE_END)
wrong("15b-zero-bubble", advice="what makes room, a W", name="split_gpipe")(SPLIT_GPIPE)
wrong("15b-zero-bubble", advice="rank 2 before F2", name="only_the_last_is_late")(
    ONLY_THE_LAST_IS_LATE
)
wrong(
    "15b-zero-bubble",
    advice="19 slots.*the gap of rank 2 before F2.*before that, on any rank",
    name="two_forwards_ahead",
)(TWO_FORWARDS_AHEAD)
wrong(
    "15b-zero-bubble",
    advice="slots, and 14|what makes room, a W",
    note="The wrong end: nobody waits for a B of rank 0.",
    name="first_rank_is_late",
)(FIRST_RANK_IS_LATE)
wrong(
    "15b-zero-bubble", advice="W0 before B0.*W needs the gradients", name="w_before_b"
)(W_BEFORE_B)
wrong("15b-zero-bubble", advice="never runs W3", name="forgets_the_last_w")(
    [order[:-1] for order in zero_bubble(3, 4)]
)
wrong(
    "15b-zero-bubble",
    advice="slots, and 14|everyone waits|what makes room, a W",
    name="same_row_on_all",
)(zero_bubble(3, 4)[:1] * 3)
wrong(
    "15b-zero-bubble",
    advice="the form: for each rank a list, not a string",
    name="rows_as_strings",
)([" ".join(order) for order in zero_bubble(3, 4)])
wrong(
    "15b-zero-bubble",
    advice="F, B and W of micro-batches 0 to 3|3 micro-batches on each rank",
    name="three_micro_batches",
)(zero_bubble(3, 3))
right("15b-beat-gpipe", name="in_tuples")(
    (
        (
            ("F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"),
            ("F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"),
        ),
    )
)
right("15b-beat-gpipe", name="in_an_array")(
    np.array(
        [
            ["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"],
            ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
        ]
    )
)
right("15b-beat-gpipe", name="the_micro_batches_in_another_order")(
    [
        ["F3", "F1", "B3", "F2", "B1", "F0", "B2", "B0"],
        ["F3", "B3", "F1", "B1", "F2", "B2", "F0", "B0"],
    ]
)
right("15b-zero-bubble", name="with_its_stage_in_front")(
    _with_stages(zero_bubble(3, 4))
)
right("15b-zero-bubble", name="micro_batches_in_another_order")(
    [[work[0] + "3102"[int(work[1])] for work in order] for order in zero_bubble(3, 4)]
)
right("15b-zero-bubble", name="in_tuples")((tuple(map(tuple, zero_bubble(3, 4))),))
