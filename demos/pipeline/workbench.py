"""Try a schedule out: prove it legal, draw it, run it on real ranks, measure it."""

from demos.pipeline.drawing import draw
from demos.pipeline.rehearsal import rehearse
from demos.pipeline.rules import bubble, length, peak_activations, timetable, verdict
from demos.pipeline.schedules import Schedule


def workbench(schedule: Schedule, forward=1, backward=1, seconds=0.05):
    """Judge `schedule`; if it is legal, run it, and draw the plan and what happened."""
    if verdict(schedule) != "legal":
        print("illegal:", verdict(schedule))
        return None
    plan = timetable(schedule, forward, backward)
    done = rehearse(schedule, forward, backward, seconds)
    print("legal")
    print(f"micro-batches kept, by rank: {peak_activations(schedule)}")
    print(f"planned:  {length(plan):g} slots, bubble {100 * bubble(plan):.1f} %")
    print(
        f"measured: {length(done) * seconds:.2f} s, bubble {100 * bubble(done):.1f} %"
    )
    return draw({"planned": plan, "measured": done}, stamp="measured here")
