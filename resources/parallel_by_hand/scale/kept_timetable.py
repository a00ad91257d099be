"""Lesson 15's timetable, prepared once for a schedule and then run for any times.

What must happen before what depends on the schedule alone. So the order in which its
pieces can be worked out is found once; with other times of the stages only the sums
are made again. A search tries thousands of times on a few dozen schedules.

A message to a neighbour travels while its sender goes on. A rank's link to each side
carries one message at a time.
"""

from functools import lru_cache
from typing import NamedTuple

from parallel_by_hand.pipeline.schedules import (
    SCHEDULES_BY_NAME,
    Schedule,
    read_instruction,
)

NOTHING = -1  # needed by the first piece of a micro-batch


class KeptTimetable(NamedTuple):
    """Each piece of work in an order that is possible: its rank, what, what it needs.

    `work` is kind * stages + stage, with F, B, W as kinds 0, 1, 2. `needed` is the
    place of the piece on a neighbouring stage that must be done before. `links` is the
    number of the link that carries the result, `instructions` are lesson 15's. `kept`
    are the forwards that each rank keeps at most.
    """

    ranks: list[int]
    work: list[int]
    needed: list[int]
    links: list[int]
    instructions: list[str]
    kept: tuple[int, ...]

    def run(
        self, seconds: list[float], travel: float, sending: float
    ) -> tuple[list[float], tuple[float, ...]]:
        """When each piece starts, and when each rank is done.

        Each kind and stage takes `seconds[work]`, a message `travel`, of which it
        keeps its link busy for `sending`.
        """
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
    """Lesson 15's schedule. One rank alone takes its micro-batches one by one."""
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
    stages = ranks * (chunks if name == "interleaved" and ranks > 1 else 1)
    orders = [_read_order(order, rank, stages) for rank, order in enumerate(schedule)]
    places: dict[tuple[int, int], int] = {}
    columns: list[tuple[int, int, int, int, str]] = []
    position, moving = [0] * ranks, True
    while moving:
        moving = False
        for rank, order in enumerate(orders):
            while position[rank] < len(order):
                work, microbatch = order[position[rank]]
                needed = NOTHING
                if (before := _neighbour(work, stages)) is not None:
                    needed = places.get((before, microbatch))
                    if needed is None:
                        break
                places[work, microbatch] = len(columns)
                link = _link(work, rank, ranks, stages)
                instruction = schedule[rank][position[rank]]
                columns.append((rank, work, needed, link, instruction))
                position[rank] += 1
                moving = True
    assert len(columns) == sum(map(len, orders)), "lesson 15's schedules all can run"
    lists = [list(column) for column in zip(*columns, strict=True)]
    return KeptTimetable(
        *lists, kept=tuple(_most_kept(order, stages) for order in orders)
    )


def _read_order(order: list[str], rank: int, stages: int) -> list[tuple[int, int]]:
    works = (read_instruction(instruction, rank) for instruction in order)
    return [("FBW".index(w.kind) * stages + w.stage, w.microbatch) for w in works]


def _neighbour(work: int, stages: int) -> int | None:
    """The same micro-batch's work on the stage before, or behind on the way back."""
    kind, stage = divmod(work, stages)
    if kind == 0:
        return work - 1 if stage > 0 else None
    return work + 1 if kind == 1 and stage < stages - 1 else None


def _link(work: int, rank: int, ranks: int, stages: int) -> int:
    """Two for each rank, one for each side; the last is no link: nothing is sent."""
    kind, stage = divmod(work, stages)
    sent = (kind == 0 and stage < stages - 1) or (kind == 1 and stage > 0)
    return 2 * rank + kind if sent else 2 * ranks


def _most_kept(order: list[tuple[int, int]], stages: int) -> int:
    """Lesson 15's `peak_activations` of one rank."""
    last = max(work // stages for work, _ in order)  # B, or W where there are any
    kept = most = 0
    for work, _ in order:
        kept += {0: 1, last: -1}.get(work // stages, 0)
        most = max(most, kept)
    return most
