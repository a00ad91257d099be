"""Sleeping ranks do what a schedule says, in its order."""

from parallel_by_hand.pipeline.rehearsal import rehearse
from parallel_by_hand.pipeline.schedule_rules import needs
from parallel_by_hand.pipeline.schedules import (
    gpipe,
    one_f_one_b,
    read_instruction,
    zero_bubble,
)
from parallel_by_hand.pipeline.workbench import workbench


def test_sleeping_ranks_do_what_the_plan_says_in_its_order():
    schedule = one_f_one_b(3, 4)
    done = rehearse(schedule, [1, 2, 1], 1, seconds=0.005)
    for rank, order in enumerate(schedule):
        assert [slot.instruction for slot in done if slot.rank == rank] == order
    at = {read_instruction(slot.instruction, slot.rank): slot for slot in done}
    for work, slot in at.items():
        for before in needs(work, 3):
            assert at[before].end <= slot.start
        longer = 2 if work == work._replace(kind="F", stage=1) else 1
        assert slot.end - slot.start >= longer


def test_the_workbench_answers(capsys):
    assert workbench([["F0"], ["F0", "B0"]]) is None
    assert "illegal: rank 0 never runs B0" in capsys.readouterr().out
    assert workbench(gpipe(2, 2), seconds=0.005) is not None
    assert "planned:  6 slots, bubble 33.3 %" in capsys.readouterr().out


def test_sleeping_ranks_do_both_parts_of_a_backward():
    schedule = zero_bubble(2, 3)
    done = rehearse(schedule, 1, 2, 3, seconds=0.005)
    for rank, order in enumerate(schedule):
        assert [slot.instruction for slot in done if slot.rank == rank] == order
    for slot in done:
        assert slot.end - slot.start >= {"F": 1, "B": 2, "W": 3}[slot.instruction[0]]
