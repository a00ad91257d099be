"""Lesson 15's timetable, prepared once for a schedule and then run for any times.

What must happen before what depends on the schedule alone. So the order in which its
pieces can be worked out is found once; with other times of the stages only the sums
are made again. A search tries thousands of times on a few dozen schedules.

A message to a neighbour travels while its sender goes on. A rank's link to each side
carries one message at a time.
"""

from functools import lru_cache
from typing import NamedTuple

from parallel_by_hand.pipeline.schedule_rules import (
    needs,
    peak_activations,
    schedule_size,
    timetable,
)
from parallel_by_hand.pipeline.schedules import (
    SCHEDULES_BY_NAME,
    Schedule,
    ScheduledWork,
    read_instruction,
)

NOTHING = -1  # needed by the first piece of a micro-batch


class KeptTimetable(NamedTuple):
    """The timetable kept: pieces of work in a possible order, their ranks and needs."""

    ranks: list[int]
    work: list[int]  # kind * stages + stage, with F, B, W as kinds 0, 1, 2
    needed: list[int]  # the place of the piece on a neighbouring stage that comes first
    links: list[int]  # that carry results: two for each rank, one for what goes nowhere
    instructions: list[str]  # lesson 15's
    kept: tuple[int, ...]  # the forwards that each rank keeps at most

    def run(
        self, seconds: list[float], travel: float, sending: float
    ) -> tuple[list[float], tuple[float, ...]]:
        """When each piece starts, and when each rank is done."""
        free = [0.0] * len(self.kept)
        link_free = [0.0] * (1 + max(self.links))
        arrived = [0.0] * (len(self.ranks) + 1)  # the last is NOTHING's
        starts = []
        pieces = zip(self.ranks, self.work, self.needed, self.links, strict=True)
        for place, (rank, work, needed, link) in enumerate(pieces):
            start = free[rank] if free[rank] > arrived[needed] else arrived[needed]
            starts.append(start)
            free[rank] = end = start + seconds[work]
            left = end if end > link_free[link] else link_free[link]
            arrived[place] = left + travel
            link_free[link] = left + sending
        return starts, tuple(free)


def scheduled(name: str, ranks: int, microbatches: int, chunks: int) -> Schedule:
    """The schedule to be kept; one rank alone takes its micro-batches one by one."""
    if ranks == 1:
        return SCHEDULES_BY_NAME["1f1b"](ranks, microbatches)
    more = (chunks,) if name == "interleaved" else ()
    return SCHEDULES_BY_NAME[name](ranks, microbatches, *more)


@lru_cache(maxsize=128)
def kept_timetable(
    name: str, ranks: int, microbatches: int, chunks: int
) -> KeptTimetable:
    """The timetable of one of lesson 15's schedules, without times."""
    schedule = scheduled(name, ranks, microbatches, chunks)
    stages, _ = schedule_size(schedule)
    places: dict[ScheduledWork, int] = {}
    columns: list[tuple[int, int, int, int, str]] = []
    for _, _, rank, instruction in timetable(schedule):
        work = read_instruction(instruction, rank)
        kind = "FBW".index(work.kind)
        before = [s for s in needs(work, stages) if s.stage != work.stage]
        needed = places[before[0]] if before else NOTHING
        after = work.stage + (1, -1, stages)[kind]
        link = 2 * rank + kind if 0 <= after < stages else 2 * ranks
        places[work] = len(columns)
        columns.append((rank, kind * stages + work.stage, needed, link, instruction))
    lists = [list(column) for column in zip(*columns, strict=True)]
    return KeptTimetable(*lists, kept=tuple(peak_activations(schedule)))
