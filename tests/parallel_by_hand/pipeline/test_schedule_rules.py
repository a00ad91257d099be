"""A schedule's rules hold in every timetable, and a verdict on any order is true."""

import random
import re
from itertools import combinations

import pytest

from parallel_by_hand.pipeline.schedule_rules import (
    IllegalSchedule,
    Slot,
    needs,
    timetable,
    verdict,
)
from parallel_by_hand.pipeline.schedules import (
    ScheduledWork,
    gpipe,
    interleaved,
    read_instruction,
    read_schedule,
    zero_bubble,
)
from tests.parallel_by_hand.pipeline.legal_schedules import MADE, random_schedule

SIZES = [(1, 1), (1, 5), (2, 3), (3, 2), (4, 8), (7, 5)]


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_a_timetable_keeps_every_rule(make, stages, microbatches):
    schedule = make(stages, microbatches)
    slots = timetable(schedule, forward=range(1, stages + 1), backward=2)
    assert verdict(schedule) == "legal"
    kinds = 3 if make is zero_bubble else 2
    assert len(slots) == kinds * stages * microbatches
    _expect_the_rules(slots, stages)


@pytest.mark.parametrize(
    ("ranks", "chunks", "microbatches"), [(2, 2, 4), (4, 3, 8), (4, 2, 6)]
)
def test_an_interleaved_timetable_keeps_every_rule(ranks, chunks, microbatches):
    slots = timetable(interleaved(ranks, microbatches, chunks))
    assert len(slots) == 2 * ranks * chunks * microbatches
    _expect_the_rules(slots, ranks * chunks)


def _expect_the_rules(slots: list[Slot], stages: int) -> None:
    at = {read_instruction(slot.instruction, slot.rank): slot for slot in slots}
    for work, slot in at.items():
        for before in needs(work, stages):
            assert at[before].end <= slot.start
    for one, other in combinations(slots, 2):
        together = one.start < other.end and other.start < one.end
        assert not (one.rank == other.rank and together)


def test_a_schedule_is_read_as_it_is_written():
    for schedule in gpipe(3, 12), interleaved(2, 4):
        lines = "\n".join(" ".join(order) for order in schedule)
        assert read_schedule(f"# mine\n\n{lines}  # end\n") == schedule


def test_what_an_instruction_needs():
    assert needs(ScheduledWork("W", 1, 3), 3) == [ScheduledWork("B", 1, 3)]
    assert needs(ScheduledWork("F", 0, 3), 3) == []
    assert needs(ScheduledWork("F", 2, 3), 3) == [ScheduledWork("F", 1, 3)]
    assert needs(ScheduledWork("B", 2, 3), 3) == [ScheduledWork("F", 2, 3)]
    assert needs(ScheduledWork("B", 1, 3), 3) == [
        ScheduledWork("F", 1, 3),
        ScheduledWork("B", 2, 3),
    ]


ILLEGAL = [
    ([["F0", "B0", "F1", "B1"], ["F0", "F1", "B0", "B1"]], "everyone waits: rank 0 c"),
    ([["F0", "F1", "B0", "B1"], ["F0", "B1", "F1", "B0"]], "rank 1 runs B1 before F1"),
    ([["F0", "B0"], []], "rank 1 never runs F0"),
    ([["F0"], ["F0", "B0"]], "rank 0 never runs B0"),
    ([["F0", "F0", "B0"]], "rank 0 runs F0 twice"),
    ([["F0", "V0"]], "'V0' is no instruction"),
    ([["F0", "W0", "B0"]], "rank 0 runs W0 before B0: W needs the gradients"),
    ([["0F0", "1F0"], ["1F0"]], "stage 1 lives on rank 1"),
    (["F0 B0", "F0 B0"], "rank 0: each rank needs a list, not a string"),
    ([[], []], "the schedule is empty"),
    ([["0F0", "2F0", "2B0", "0B0"], ["1F0"]], "rank 1 never runs 1B0"),
]


@pytest.mark.parametrize(("schedule", "why"), ILLEGAL)
def test_an_illegal_schedule_is_explained(schedule, why):
    said = verdict(schedule)
    assert why in said
    assert "\n" not in said
    with pytest.raises(IllegalSchedule, match=r"rank|schedule") as error:
        timetable(schedule)
    of_rank = re.match(r"rank (\d+)", said)
    assert error.value.rank == (int(of_rank[1]) if of_rank else None)


def test_the_verdict_is_the_truth_about_random_orders():
    """Any order that a pipeline could follow is legal; what it forbids is not.

    Slots are filled at random, as the rules allow: the orders that arise are legal.
    Then two instructions of one rank change places; legal or not, `verdict` must agree
    with a search that knows nothing but the rules.
    """
    dice = random.Random(15)
    seen = {True: 0, False: 0}
    for _ in range(200):
        stages, microbatches = dice.randint(1, 4), dice.randint(1, 4)
        kinds = dice.choice(["FB", "FBW"])
        schedule = random_schedule(dice, stages, microbatches, kinds)
        assert verdict(schedule) == "legal"
        order = dice.choice(schedule)
        a, b = dice.randrange(len(order)), dice.randrange(len(order))
        order[a], order[b] = order[b], order[a]
        possible = _has_no_cycle(schedule, stages)
        assert (verdict(schedule) == "legal") is possible
        seen[possible] += 1
    assert min(seen.values()) > 20


def _has_no_cycle(schedule, stages: int) -> bool:
    """Take away, again and again, what has nothing before it."""
    before = {}
    for rank, order in enumerate(schedule):
        for place, instruction in enumerate(order):
            work = read_instruction(instruction, rank)
            before[work] = set(needs(work, stages))
            if place:
                before[work].add(read_instruction(order[place - 1], rank))
    while free := [work for work, others in before.items() if not others]:
        for work in free:
            del before[work]
        for others in before.values():
            others.difference_update(free)
    return not before
