"""A schedule to touch: its stages, micro-batches and times; its plan can be saved."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from parallel_by_hand.pipeline.schedule_drawing import draw_schedule
from parallel_by_hand.pipeline.schedule_rules import Slot, timetable
from parallel_by_hand.pipeline.schedules import SCHEDULES_BY_NAME, Schedule
from sidebyside.timeline.touchable import make_touchable

CHOICES: dict[str, Sequence] = {
    "schedule": list(SCHEDULES_BY_NAME),
    "stages": range(2, 9),
    "micro-batches": range(1, 17),
    "slots of a backward": [1, 2, 3],
    "slow stage (2 ×)": ["none", "first", "middle", "last"],
}


def plan_of_settings(settings: Mapping) -> tuple[Schedule, list[Slot]]:
    """A plan to touch, and its timetable, in forwards of a whole stage.

    Interleaved, each rank has two stages of half the length. In zero bubble B and W
    take half of a backward each. Raises ValueError where the schedule has no such plan.
    """
    kind, ranks, microbatches, ratio, slow = (settings[name] for name in CHOICES)
    schedule = SCHEDULES_BY_NAME[kind](ranks, microbatches)
    thin = 2 if kind == "interleaved" else 1
    slows = {"first": 0, "middle": ranks // 2, "last": ranks - 1}.get(slow)
    times = [(2 if rank == slows else 1) / thin for rank in range(ranks)] * thin
    parts = 2 if kind == "zero-bubble" else 1
    backwards = [ratio * time / parts for time in times]
    return schedule, timetable(schedule, times, backwards, backwards)


def touch_schedule(
    kind: str,
    stages: int,
    microbatches: int,
    backward: int = 1,
    kinds: Sequence[str] = CHOICES["schedule"],
):
    """A figure of a schedule that can be touched; `kinds` are the schedules to try."""
    first = kind, stages, microbatches, backward, "none"
    settings = dict(zip(CHOICES, first, strict=True))
    still = draw_schedule(plan_of_settings(settings)[1])
    choices = CHOICES | {"schedule": kinds}
    script = Path(__file__).with_suffix(".js")
    return make_touchable(still, [script], choices, settings)
