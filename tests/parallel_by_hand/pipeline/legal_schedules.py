"""Schedules that any pipeline can follow, for the tests beside."""

from parallel_by_hand.pipeline.schedule_rules import needs
from parallel_by_hand.pipeline.schedules import (
    ScheduledWork,
    gpipe,
    naive,
    one_f_one_b,
    zero_bubble,
)

MADE = [naive, gpipe, one_f_one_b, zero_bubble]


def random_schedule(dice, stages: int, microbatches: int, kinds="FB") -> list:
    """Slots are filled at random, as the rules allow."""
    todo = {
        ScheduledWork(kind, stage, m)
        for kind in kinds
        for stage in range(stages)
        for m in range(microbatches)
    }
    schedule, done = [[] for _ in range(stages)], set()
    while todo:
        can = [work for work in sorted(todo) if set(needs(work, stages)) <= done]
        work = dice.choice(can)
        schedule[work.stage].append(f"{work.kind}{work.microbatch}")
        done.add(work)
        todo.remove(work)
    return schedule
