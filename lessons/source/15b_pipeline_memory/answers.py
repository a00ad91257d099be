"""Answers to the exercises of lesson 15b that people give, and that are not right."""

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.pipeline.schedules import gpipe, naive, one_f_one_b, zero_bubble

# 15b-1f1b


@wrong(
    "15b-1f1b",
    advice="cannot start|with how many forwards",
    note="Forgets that the last rank can go back at once.",
)
def everyone_runs_equally_far_ahead(stages, microbatches):
    return one_f_one_b(stages, microbatches)[:1] * stages


@wrong(
    "15b-1f1b",
    advice="here 1: do they keep all",
    note="Off by one: the last but one rank does not run ahead.",
)
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
    advice="everyone waits.*Which rank has stages after it",
    note="Rank 0 is the first stage, not the last: the lists deadlock.",
)
def counts_ranks_from_the_wrong_end(stages, microbatches):
    return one_f_one_b(stages, microbatches)[::-1]


@wrong(
    "15b-1f1b",
    advice="how many forwards can a rank run",
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


@wrong(
    "15b-1f1b",
    advice="never runs B.*each once, and for the same micro-batch in this order",
    note="The third part of the row is missing.",
)
def forgets_the_last_backwards(stages, microbatches):
    return [
        order[: 2 * microbatches - (stages - 1 - rank)]
        for rank, order in enumerate(one_f_one_b(stages, microbatches))
    ]


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
ONLY_THE_LAST_IS_LATE = _rows("""
    F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3
    F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 B3 W3
    F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3
""")
W_BEFORE_B = _rows("""
    F0 F1 F2 W0 B0 F3 W1 B1 W2 B2 W3 B3
    F0 F1 W0 B0 F2 W1 B1 F3 W2 B2 W3 B3
    F0 W0 B0 F1 W1 B1 F2 W2 B2 F3 W3 B3
""")


wrong(
    "15b-beat-gpipe",
    advice="what makes room, a backward",
    note="The bench as it is: as fast as wanted, and all four micro-batches kept.",
    name="gpipe",
)(gpipe(2, 4))
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
    advice="the form: for each rank a list, not a string",
    note="As the workbench prints them.",
    name="rows_as_strings",
)(["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"])
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
    advice="rank 0 \\| F0 F1 B0 F2 B1 F3 B2\\b.*what each rank runs: F and B",
    note="Seven instructions on a rank that needs eight.",
    name="forgets_the_last_backward",
)(
    [
        ["F0", "F1", "B0", "F2", "B1", "F3", "B2"],
        ["F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"],
    ]
)
wrong(
    "15b-1f1b",
    advice="with how many forwards does this rank begin",
    note="Right order for one stage, so they think it is done: draw it.",
    name="gpipe",
)(gpipe)
wrong(
    "15b-zero-bubble",
    advice="kept by ranks.*what makes room, a W",
    note="Fills every gap and keeps the whole batch: ask for the memory.",
    name="all_at_the_end",
)(ALL_AT_THE_END)
wrong(
    "15b-zero-bubble",
    advice="rank 2 before F2",
    note="Rank 1 has to delay its W, too.",
    name="only_the_last_is_late",
)(ONLY_THE_LAST_IS_LATE)
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
    advice="W0 before B0.*W needs the gradients",
    note="W needs the gradients that B computes.",
    name="w_before_b",
)(W_BEFORE_B)
wrong(
    "15b-zero-bubble",
    advice="never runs W3",
    note="One W of each rank is missing: 11 instructions for 12.",
    name="forgets_the_last_w",
)([order[:-1] for order in zero_bubble(3, 4)])
right("15b-beat-gpipe", name="in_tuples")(
    (
        (
            ("F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"),
            ("F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"),
        ),
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
