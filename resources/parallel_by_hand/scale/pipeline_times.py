"""When the ranks of a pipeline work: lesson 15's timetable, run once for each plan.

Nothing here is a formula for the bubble. A long step repeats itself, so of a very long
one the timetable is made of two shorter ones. (An interleaved one repeats itself later
where messages take longer than a thin stage: there it is within a seventh.)
"""

from functools import lru_cache
from typing import NamedTuple

from parallel_by_hand.pipeline.schedule_rules import Slot
from parallel_by_hand.scale.kept_timetable import KeptTimetable, kept_timetable

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
    travel: float = 0.0  # seconds of a message to the next stage, or back
    sending: float = 0.0  # those of them in which it keeps the link busy, and no rank

    def kept(self) -> KeptTimetable:
        return kept_timetable(self.name, self.ranks, self.microbatches, self.chunks)

    def seconds(self) -> list[float]:
        """Of each kind and stage. The two parts of a backward take half of it each."""
        if self.name == "zero-bubble" and self.ranks > 1:
            return [*self.forward, *2 * [time / 2 for time in self.backward]]
        return [*self.forward, *self.backward]

    def slots(self) -> list[Slot]:
        """The timetable in lesson 15's words."""
        kept, seconds = self.kept(), self.seconds()
        starts, _ = kept.run(seconds, self.travel, self.sending)
        pieces = zip(starts, kept.work, kept.ranks, kept.instructions, strict=True)
        return sorted(
            Slot(start, start + seconds[work], rank, instruction)
            for start, work, rank, instruction in pieces
        )


class PlannedPipeline(NamedTuple):
    """The pipeline's times by rank: its last backward's end; forwards kept at most."""

    ends: Times
    kept: tuple[int, ...]

    def bubble(self, plan: PlanOfPipeline) -> float:
        """Lesson 15's share of the ranks' time that is spent waiting."""
        busy = plan.microbatches * (sum(plan.forward) + sum(plan.backward))
        return max(0.0, 1 - busy / (plan.ranks * max(self.ends)))


@lru_cache(maxsize=2**14)
def run_pipeline_on_paper(plan: PlanOfPipeline) -> PlannedPipeline:
    """The pipeline's times: how long each rank works, and what it keeps."""
    ranks, microbatches = plan.ranks, plan.microbatches
    uneven = plan.name == "interleaved" and microbatches % ranks
    if microbatches <= LONG * ranks or uneven:
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
    kept = plan.kept()
    _, ends = kept.run(plan.seconds(), plan.travel, plan.sending)
    return PlannedPipeline(ends, kept.kept)
