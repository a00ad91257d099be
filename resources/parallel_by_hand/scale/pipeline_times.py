"""When the ranks of a pipeline work: lesson 15's timetable, run once for each plan.

Nothing here is a formula for the bubble. A long step repeats itself, so of a very long
one the timetable is made of two shorter ones.
"""

from functools import lru_cache
from typing import NamedTuple

from parallel_by_hand.pipeline.schedule_rules import Slot, timetable
from parallel_by_hand.pipeline.schedules import Schedule
from parallel_by_hand.scale.kept_timetable import kept_timetable, scheduled

Times = tuple[float, ...]  # seconds of each stage for one micro-batch
LONG = 4  # micro-batches for each rank: a step with more repeats itself


class PlanOfPipeline(NamedTuple):
    """A schedule of lesson 15, and the seconds of its stages. `chunks` as there."""

    name: str
    ranks: int
    microbatches: int
    chunks: int
    forward: Times
    backward: Times

    def schedule(self) -> Schedule:
        """One rank alone takes its micro-batches one by one, forward and back."""
        return scheduled(self.name, self.ranks, self.microbatches, self.chunks)

    def slots(self) -> list[Slot]:
        """Lesson 15's timetable. A backward in two parts has two halves of the time."""
        if self.name == "zero-bubble" and self.ranks > 1:
            halves = [time / 2 for time in self.backward]
            return timetable(self.schedule(), list(self.forward), halves, halves)
        return timetable(self.schedule(), list(self.forward), list(self.backward))


class PlannedPipeline(NamedTuple):
    """By rank: when its last backward ends, and how many forwards it keeps at most."""

    ends: Times
    kept: tuple[int, ...]

    def bubble(self, plan: PlanOfPipeline) -> float:
        """Lesson 15's share of the ranks' time that is spent waiting."""
        busy = plan.microbatches * (sum(plan.forward) + sum(plan.backward))
        return max(0.0, 1 - busy / (plan.ranks * max(self.ends)))


@lru_cache(maxsize=2**14)
def run_pipeline_on_paper(plan: PlanOfPipeline) -> PlannedPipeline:
    """How long each rank of the pipeline works, and what it keeps."""
    ranks, microbatches = plan.ranks, plan.microbatches
    if microbatches <= LONG * ranks:
        return _run_all_of_it(plan)
    few = (LONG - 1) * ranks + microbatches % ranks
    short = run_pipeline_on_paper(plan._replace(microbatches=few))
    longer = _run_all_of_it(plan._replace(microbatches=few + ranks))
    repeats = (microbatches - few) // ranks

    def go_on(before: tuple, after: tuple) -> tuple:
        pairs = zip(before, after, strict=True)
        return tuple(a + repeats * (b - a) for a, b in pairs)

    return PlannedPipeline(
        go_on(short.ends, longer.ends), go_on(short.kept, longer.kept)
    )


def _run_all_of_it(plan: PlanOfPipeline) -> PlannedPipeline:
    """All slots, by the timetable that is kept for this schedule."""
    kept = kept_timetable(plan.name, plan.ranks, plan.microbatches, plan.chunks)
    backward, weights = plan.backward, ()
    if plan.name == "zero-bubble" and plan.ranks > 1:
        backward = weights = tuple(time / 2 for time in plan.backward)
    return PlannedPipeline(kept.ends([*plan.forward, *backward, *weights]), kept.kept)
