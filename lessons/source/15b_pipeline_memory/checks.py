"""Checks of the exercises of lesson 15b, Pipeline parallel: memory and bubble."""

import random
from itertools import takewhile

from parallel_by_hand.pipeline.schedule_drawing import schedule_text
from parallel_by_hand.pipeline.schedule_rules import (
    kinds_of_work,
    peak_activations,
    schedule_size,
    timetable,
    timetable_length,
    why_illegal,
)
from parallel_by_hand.pipeline.schedules import (
    EveryoneWaits,
    gpipe,
    read_instruction,
)
from sidebyside.exercises.check import exercise, trying


def _expect_schedule(expect, answer, ranks: int) -> list[list[str]]:
    """The answer as lists, or advice on its form."""
    such = 'such as [["F0", "B0"], ["F0", "B0"]]'
    form = f"the form: one list of instructions for each rank, {such}"
    rows = _as_list(answer)
    expect(rows is not None, got=answer, think=form)
    if any(isinstance(row, str) for row in rows):
        form = f"the form: for each rank a list, not a string, {such}"
    orders = [_as_list(row) for row in rows]
    expect(None not in orders, got=answer, think=form)
    expect(len(rows) == ranks, got=answer, think=f"one list for each of {ranks} ranks")
    return orders


def _as_list(answer: object) -> list | None:
    """What stands in a sequence of any kind; None where it is no sequence."""
    if isinstance(answer, str | bytes | dict) or not hasattr(answer, "__getitem__"):
        return None
    return list(answer)


def _expect_legal_schedule(expect, schedule, microbatches: int, kinds="FB") -> None:
    last = microbatches - 1
    which = f"micro-batches 0 to {last}" if last else "micro-batch 0"
    think = f"what each rank runs: {'F, B and W' if 'W' in kinds else 'F and B'} of "
    think += f"{which}, each once, and for the same micro-batch in this order"
    if microbatches < len(schedule):
        think += "; with fewer micro-batches than stages, how many forwards can a rank "
        think += "run ahead?"
    has_w = kinds_of_work(schedule) == "FBW"
    expect("W" in kinds or not has_w, got="a schedule with a W", think=think)
    problem = why_illegal(schedule)
    guilty = problem and problem.rank
    ranks = range(len(schedule)) if guilty is None else [guilty]
    rows = "".join(f"\nrank {r} | {' '.join(map(str, schedule[r]))}" for r in ranks)
    got = f"a schedule that cannot run: {problem}{rows}"
    if isinstance(problem, EveryoneWaits):
        think = "one finger per rank, along the lists: where do they stop? Which rank "
        think += "has stages after it, and so has to run ahead?"
    expect(problem is None, got=got, think=think)
    stages, most = schedule_size(schedule)
    got = f"{most} micro-batches on each rank{rows}"
    expect(most == microbatches, got=got, think=think)
    got = f"{stages} stages on {len(schedule)} ranks{rows}"
    expect(stages == len(schedule), got=got, think="one stage on each rank: no prefix")


def _expect_slots(expect, schedule, most: int, waits: list[int]) -> None:
    """At most so many slots. In them rank r can wait for `waits[r]` from slot r on."""
    slots = timetable(schedule)
    length = timetable_length(slots)
    think = ""
    for rank, spare in enumerate(waits):
        own = [slot for slot in slots if slot.rank == rank]
        for done, slot in enumerate(own):
            if slot.start - rank - done > spare:  # so no schedule of that length
                think = f"the gap of rank {rank} before {slot.instruction}: what does "
                think += "the rank wait for? Could anything before that, on any rank, "
                think += "come later, or anything else fill the gap?"
                break
    got = f"{length} slots, and {most} are possible:\n{schedule_text(slots)}"
    expect(length <= most, got=got, think=think)


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
        _expect_slots(expect, schedule, 10, waits=[2, 0])


@exercise("15b-1f1b", seconds=20)
def check_15b_1f1b(one_forward_one_backward):
    dice = random.Random(15)
    cases = [(2, 2), (3, 4), (1, 3), (4, 8), (4, 2), (5, 1), (1, 1), (8, 8), (20, 24)]
    cases += [(dice.randint(1, 9), dice.randint(1, 20)) for _ in range(30)]
    cases += [(2, 130)]
    for case in cases:
        _try_1f1b(one_forward_one_backward, *case)


def _try_1f1b(one_forward_one_backward, stages: int, microbatches: int) -> None:
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
            think = f"the forwards with which rank {rank} begins, here {begins}: do "
            think += "they keep all stages after it at work?"
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
        _expect_legal_schedule(expect, schedule, 4, kinds="FBW")
        kept = peak_activations(schedule)
        expect(
            max(kept) <= 3,
            got=f"{kept} micro-batches kept by ranks 0, 1 and 2, at most 3 are wanted",
            think="what makes room, a W: which rank needs one before a forward?",
        )
        _expect_slots(expect, schedule, 14, waits=[2, 1, 0])
