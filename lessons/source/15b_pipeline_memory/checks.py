"""Checks of the exercises of lesson 15b, Pipeline parallel: memory and bubble."""

import random
from itertools import takewhile

from demos.pipeline.parts.schedule_drawing import schedule_text
from demos.pipeline.parts.schedule_rules import (
    kinds_of_work,
    peak_activations,
    schedule_size,
    timetable,
    timetable_length,
    why_illegal,
)
from demos.pipeline.parts.schedules import EveryoneWaits, gpipe, read_instruction
from sidebyside.exercises import exercise, trying


def _expect_schedule(expect, answer, ranks: int) -> list[list[str]]:
    """The answer as lists, or advice on its form."""
    form = 'the form: one list per rank, such as [["F0", "B0"], ["F0", "B0"]]'
    expect(isinstance(answer, list | tuple), got=answer, think=form)
    strings = any(isinstance(order, str) for order in answer)
    expect(
        not strings, got=answer, think=f"each rank needs a list, not a string; {form}"
    )
    right = all(isinstance(order, list | tuple) for order in answer)
    expect(right, got=answer, think=form)
    expect(
        len(answer) == ranks, got=answer, think=f"one list for each of {ranks} ranks"
    )
    return [list(order) for order in answer]


def _expect_legal_schedule(expect, schedule, microbatches: int) -> None:
    problem = why_illegal(schedule)
    last = microbatches - 1
    think = (
        f"what each rank runs: F0 to F{last} and B0 to B{last}, each once, and a "
        "backward after its forward"
    )
    if kinds_of_work(schedule) == "FBW":
        think = (
            f"what each rank runs: F, B and W of micro-batches 0 to {last}, each once, "
            "in this order"
        )
    if microbatches < len(schedule):
        think += (
            "; there are fewer micro-batches than stages: how many forwards can a rank "
            "run ahead?"
        )
    if isinstance(problem, EveryoneWaits):
        think = "one finger per rank, along the lists: where do the fingers stop?"
    guilty = problem and problem.rank
    ranks = range(len(schedule)) if guilty is None else [guilty]
    rows = "".join(f"\nrank {r} | {' '.join(map(str, schedule[r]))}" for r in ranks)
    got = f"a schedule that cannot run: {problem}{rows}"
    expect(problem is None, got=got, think=think)
    stages, most = schedule_size(schedule)
    got = f"{most} micro-batches on each rank{rows}"
    expect(most == microbatches, got=got, think=think)
    got = f"{stages} stages on {len(schedule)} ranks{rows}"
    expect(stages == len(schedule), got=got, think="one stage on each rank: no prefix")


@exercise("15b-beat-gpipe")
def check_15b_beat_gpipe(beats_gpipe):
    with trying("your schedule") as expect:
        schedule = _expect_schedule(expect, beats_gpipe, 2)
        _expect_legal_schedule(expect, schedule, 4)
        kept = peak_activations(schedule)
        expect(
            max(kept) <= 2,
            got=f"{kept} micro-batches kept by ranks 0 and 1, at most 2 are wanted",
            think="what makes room, a backward: which of them could come earlier?",
        )
        slots = timetable(schedule)
        expect(
            timetable_length(slots) <= 10,
            got=f"{timetable_length(slots)} slots, and GPipe needs 10:\n"
            + schedule_text(slots),
            think="the gaps between two instructions, from the left: which instruction "
            "of the other rank ends the gap? Could that come earlier, or something "
            "else be done in the gap, without keeping a third micro-batch?",
        )


@exercise("15b-1f1b", seconds=20)
def check_15b_1f1b(one_forward_one_backward):
    dice = random.Random(15)
    cases = [(2, 2), (3, 4), (1, 3), (4, 8), (4, 2), (5, 1), (1, 1), (8, 8), (12, 30)]
    cases += [(dice.randint(1, 9), dice.randint(1, 20)) for _ in range(30)]
    for stages, microbatches in cases:
        with trying(f"one_forward_one_backward({stages}, {microbatches})") as expect:
            answer = one_forward_one_backward(stages, microbatches)
            schedule = _expect_schedule(expect, answer, stages)
            _expect_legal_schedule(expect, schedule, microbatches)
            _expect_1f1b_to_keep_little(expect, schedule)
            _expect_1f1b_as_long_as_gpipe(expect, schedule, microbatches)


def _forwards_at_first_in_1f1b(order: list[str], rank: int) -> int:
    kinds = [read_instruction(work, rank).kind for work in order]
    return len(list(takewhile(lambda kind: kind == "F", kinds)))


def _backwards_in(order: list[str], rank: int) -> list[int]:
    done = [read_instruction(work, rank) for work in order]
    return [work.microbatch for work in done if work.kind == "B"]


def _expect_1f1b_to_keep_little(expect, schedule) -> None:
    for rank, kept in enumerate(peak_activations(schedule)):
        most = len(schedule) - rank
        think = "which backward could come earlier, and make room for the next forward?"
        if _forwards_at_first_in_1f1b(schedule[rank], rank) > most:
            think = "with how many forwards does this rank begin, and how many stages "
            think += "come after it?"
        expect(
            kept <= most,
            got=f"rank {rank} keeps {kept} micro-batches, more than {most}:"
            f"\n{schedule_text(timetable(schedule))}",
            think=think,
        )


def _expect_1f1b_as_long_as_gpipe(expect, schedule, microbatches: int) -> None:
    stages = len(schedule)
    think = "the first gap in which a rank waits, but not in GPipe: what could it do?"
    for rank, order in enumerate(schedule):
        begins = _forwards_at_first_in_1f1b(order, rank)
        if begins < min(stages - rank, microbatches):
            think = (
                f"rank {rank} begins with {begins} of its forwards. That is too few "
            )
            think += (
                f"for the {stages - 1 - rank} stages below: when do they have work?"
            )
            break
        after = min(rank + 1, stages - 1)
        if _backwards_in(order, rank) != _backwards_in(schedule[after], after):
            think = f"the backwards of rank {rank}: in which order does the rank after "
            think += "it do its own?"
            break
    for backward, when in (1, ""), (2, ", when a backward takes two slots"):
        slots = timetable(schedule, 1, backward)
        of_gpipe = timetable(gpipe(stages, microbatches), 1, backward)
        takes, gpipe_takes = timetable_length(slots), timetable_length(of_gpipe)
        expect(
            takes <= gpipe_takes,
            got=f"{takes} slots where GPipe takes {gpipe_takes}{when}:\n"
            + schedule_text(slots),
            think=think,
        )


@exercise("15b-zero-bubble")
def check_15b_zero_bubble(fills_the_gaps):
    with trying("your schedule") as expect:
        schedule = _expect_schedule(expect, fills_the_gaps, 3)
        has_w = kinds_of_work(schedule) == "FBW"
        got = "a schedule in which no W stands"
        expect(has_w, got=got, think="each backward in two parts: B, and later W")
        _expect_legal_schedule(expect, schedule, 4)
        kept = peak_activations(schedule)
        expect(
            max(kept) <= 3,
            got=f"{kept} micro-batches kept by ranks 0, 1 and 2, at most 3 are wanted",
            think="what makes room, a W: who must do one before the next forward?",
        )
        slots = timetable(schedule)
        expect(
            timetable_length(slots) <= 14,
            got=f"{timetable_length(slots)} slots, and 14 are possible:\n"
            + schedule_text(slots),
            think="the gaps from the left: which B of another rank ends the gap, and "
            "what did that rank do just before? A W, whose W could come later?",
        )
