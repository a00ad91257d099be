"""Try a schedule out: prove it legal, draw it, run it on real ranks that sleep."""

from parallel_by_hand.pipeline.rehearsal import rehearse
from parallel_by_hand.pipeline.schedule_drawing import draw_schedule
from parallel_by_hand.pipeline.schedule_rules import (
    bubble,
    peak_activations,
    timetable,
    timetable_length,
    why_illegal,
)
from parallel_by_hand.pipeline.schedules import Schedule


def workbench(schedule: Schedule, forward=1, backward=1, weights=1, seconds=0.05):
    """Judge `schedule`; if it is legal, run it, and draw the plan and what happened."""
    if problem := why_illegal(schedule):
        print("illegal:", problem)
        return None
    plan = timetable(schedule, forward, backward, weights)
    done = rehearse(schedule, forward, backward, weights, seconds)
    print("legal")
    print(f"micro-batches kept, by rank: {peak_activations(schedule)}")
    print(
        f"planned:  {timetable_length(plan):g} slots, bubble {100 * bubble(plan):.1f} %"
    )
    took, idle = timetable_length(done) * seconds, 100 * bubble(done)
    print(f"run:      {took:.2f} s, bubble {idle:.1f} %")
    return draw_schedule({"planned": plan, "run": done}, stamp="simulated")
