"""Checks of the exercises of lesson 15, Pipeline parallel."""

import random
import re
from itertools import combinations, pairwise

from demos.pipeline.parts.schedule_drawing import text
from demos.pipeline.parts.schedule_rules import (
    peak_activations,
    timetable,
    timetable_length,
    verdict,
)
from demos.pipeline.parts.schedules import gpipe
from sidebyside.exercises import exercise, expect


def _expect_schedule(answer, ranks: int, tried: str) -> list[list[str]]:
    """The answer as lists, or advice on its form."""
    form = 'the form is one list per rank, such as [["F0", "B0"], ["F0", "B0"]]'
    expect(isinstance(answer, list | tuple), tried, answer, form)
    strings = any(isinstance(order, str) for order in answer)
    expect(not strings, tried, answer, f"each rank needs a list, not a string; {form}")
    right = all(isinstance(order, list | tuple) for order in answer)
    expect(right, tried, answer, form)
    expect(len(answer) == ranks, tried, answer, f"one list for each of {ranks} ranks")
    return [list(order) for order in answer]


def _expect_legal(schedule, tried: str, microbatches: int) -> None:
    said = verdict(schedule)
    deadlock = said.startswith("everyone waits")
    think = (
        f"each rank runs F0 to F{microbatches - 1} and B0 to B{microbatches - 1}, each "
        "once, and a backward after its forward"
    )
    if microbatches < len(schedule):
        think += (
            "; there are fewer micro-batches than stages: how many forwards can a rank "
            "run ahead?"
        )
    if deadlock:
        think = "run the lists with one finger per rank: where do the fingers stop?"
    guilty = re.match(r"rank (\d+)", said)
    ranks = [int(guilty[1])] if guilty else range(len(schedule))
    rows = "".join(f"\nrank {r} | {' '.join(map(str, schedule[r]))}" for r in ranks)
    expect(said == "legal", tried, f"a schedule that cannot run: {said}{rows}", think)
    most = sum(instruction[0] == "F" for instruction in schedule[0])
    got = f"{most} micro-batches on each rank{rows}"
    expect(most == microbatches, tried, got, think)


@exercise("15-beat-gpipe")
def check_beat_gpipe(beats_gpipe):
    tried = "your schedule"
    schedule = _expect_schedule(beats_gpipe, 2, tried)
    _expect_legal(schedule, tried, 4)
    kept = peak_activations(schedule)
    expect(
        max(kept) <= 2,
        tried,
        f"{kept} micro-batches kept by ranks 0 and 1, at most 2 are wanted",
        "only a backward makes room: which backward could come earlier?",
    )
    slots = timetable(schedule)
    expect(
        timetable_length(slots) <= 10,
        tried,
        f"{timetable_length(slots)} slots, and GPipe needs 10:\n{text(slots)}",
        "take the gaps between two instructions from the left: which instruction of "
        "the other rank ends the gap? Could that come earlier, or something else be "
        "done in the gap, without keeping a third micro-batch?",
    )


@exercise("15-1f1b", seconds=20)
def check_one_f_one_b(one_forward_one_backward):
    dice = random.Random(15)
    cases = [(2, 2), (3, 4), (1, 3), (4, 8), (4, 2), (5, 1)]
    cases += [(dice.randint(1, 8), dice.randint(1, 20)) for _ in range(40)]
    for stages, microbatches in cases:
        tried = f"one_forward_one_backward({stages}, {microbatches})"
        answer = one_forward_one_backward(stages, microbatches)
        schedule = _expect_schedule(answer, stages, tried)
        _expect_legal(schedule, tried, microbatches)
        for rank, kept in enumerate(peak_activations(schedule)):
            expect(
                kept <= stages - rank,
                tried,
                f"rank {rank} keeps {kept} micro-batches, more than {stages - rank}:"
                f"\n{text(timetable(schedule))}",
                "with how many forwards does this rank begin, and how many stages come "
                "after it?",
            )
        for backward in 1, 2:
            takes = timetable_length(timetable(schedule, 1, backward))
            gpipe_takes = timetable_length(
                timetable(gpipe(stages, microbatches), 1, backward)
            )
            expect(
                takes <= gpipe_takes,
                tried,
                f"{takes} slots where GPipe takes {gpipe_takes}:"
                f"\n{text(timetable(schedule))}",
                "a rank that begins with too few forwards leaves those below it "
                "without work",
            )


@exercise("15-balance", seconds=20)
def check_balance(balance):
    dice = random.Random(7)
    cases = [([1, 1, 1, 1, 4], 2), ([4, 1, 1, 1, 1], 2), ([3, 1, 2], 3), ([5, 2], 1)]
    cases += [([1, 1, 1, 1, 1, 1, 1, 1], 4), ([2, 2, 2, 9, 1, 1], 3)]
    for _ in range(60):
        layers = dice.randint(1, 10)
        times = [dice.randint(1, 9) for _ in range(layers)]
        cases.append((times, dice.randint(1, min(layers, 5))))
    for times, stages in cases:
        _try_balance(balance, times, stages)


def _try_balance(balance, times: list[int], stages: int) -> None:
    tried = f"balance({times}, {stages})"
    got = balance(list(times), stages)
    numbers = isinstance(got, list | tuple) and all(isinstance(n, int) for n in got)
    expect(numbers, tried, got, "the answer is a list of numbers of layers")
    expect(len(got) == stages, tried, got, f"one number for each of {stages} stages")
    expect(
        sum(got) == len(times),
        tried,
        got,
        f"together {len(times)} layers, no more, no less",
    )
    expect(min(got) >= 1, tried, got, "each stage gets at least one layer")
    edges = [sum(got[:stage]) for stage in range(stages + 1)]
    slowest = max(sum(times[a:b]) for a, b in pairwise(edges))
    best = min(
        max(sum(times[a:b]) for a, b in pairwise((0, *cuts, len(times))))
        for cuts in combinations(range(1, len(times)), stages - 1)
    )
    expect(
        slowest == best,
        tried,
        f"{got}: the slowest stage takes {slowest}, and {best} is possible",
        "have you compared with every other way to cut? Times count, not numbers of "
        "layers",
    )
