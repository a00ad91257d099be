"""Pipeline schedules as plain data: what each rank does, in which order.

A schedule holds one list of instructions for each rank. "F2" is the forward pass of
micro-batch 2 through the rank's stage, "B2" its backward pass. If a schedule holds a
"W", its backwards are in two parts: "B2" computes the gradient that goes to the stage
before, "W2" those of the weights. Where a rank holds several stages, the stage stands
in front: "4F2" is stage 4. A schedule says nothing about time and moves no tensor: it
is the plan.
`schedule_rules.py` judges it, `schedule_drawing.py` draws it, and
`pipeline_stages.py` carries it out.
"""

import re
from functools import lru_cache
from typing import NamedTuple

Schedule = list[list[str]]


class IllegalSchedule(ValueError):
    """No pipeline can run this schedule; the message says why.

    `rank` is the one whose list is wrong; None where the fault is not in one list.
    """

    def __init__(self, message: str, rank: int | None = None):
        super().__init__(message)
        self.rank = rank


class EveryoneWaits(IllegalSchedule):
    """Each list is complete, and yet no rank can go on."""


class ScheduledWork(NamedTuple):
    """One instruction, read: `kind` is "F", "B" or "W"."""

    kind: str
    stage: int
    microbatch: int


def read_instruction(instruction: str, rank: int) -> ScheduledWork:
    """An instruction of a schedule: "B3" on rank 1 is ScheduledWork("B", 1, 3)."""
    work = _work_of(str(instruction), rank)
    if work is None:
        raise IllegalSchedule(
            f"rank {rank}: {instruction!r} is no instruction such as F0 or B12", rank
        )
    return work


@lru_cache(maxsize=2**17)  # a timetable reads each one several times
def _work_of(instruction: str, rank: int) -> ScheduledWork | None:
    parts = re.fullmatch(r"(\d*)([FBW])(\d+)", instruction)
    if parts is None:
        return None
    stage, kind, microbatch = parts.groups()
    return ScheduledWork(kind, int(stage or rank), int(microbatch))


def naive(stages: int, microbatches: int) -> Schedule:
    """The schedule with one micro-batch at a time: only one rank works at a time."""
    order = [f"{kind}{m}" for m in range(microbatches) for kind in "FB"]
    return [list(order) for _ in range(stages)]


def gpipe(stages: int, microbatches: int) -> Schedule:
    """The schedule of all forwards, then all backwards (Huang et al. 2019)."""
    forwards = [f"F{m}" for m in range(microbatches)]
    backwards = [f"B{m}" for m in range(microbatches)]
    return [forwards + backwards for _ in range(stages)]


def one_f_one_b(stages: int, microbatches: int) -> Schedule:
    """The schedule with each backward as early as it can be (PipeDream-flush).

    A rank runs ahead by one forward for each stage below it, then alternates one
    forward, one backward, and ends with the backwards it still owes.
    """
    schedule = []
    for rank in range(stages):
        ahead = min(stages - 1 - rank, microbatches)
        order = [f"F{m}" for m in range(ahead)]
        for m in range(microbatches - ahead):
            order += [f"F{ahead + m}", f"B{m}"]
        order += [f"B{m}" for m in range(microbatches - ahead, microbatches)]
        schedule.append(order)
    return schedule


def group_size(ranks: int, microbatches: int) -> int:
    """Micro-batches that go through an interleaved pipeline together.

    `ranks` of them in the paper; a few more where the groups of torch 2.13 would not be
    equal otherwise. Raises ValueError where they cannot be.
    """
    groups = max(1, microbatches // ranks)
    if microbatches % groups:
        raise ValueError(
            f"interleaving {ranks} ranks takes {microbatches} micro-batches in groups "
            f"of at least {ranks}: it needs a multiple of {groups}"
        )
    return microbatches // groups


def interleaved(ranks: int, microbatches: int, chunks: int = 2) -> Schedule:
    """The schedule 1F1B with `chunks` stages on each rank (Narayanan et al. 2021).

    Micro-batches go through in groups: a group passes the rank's first stage, then its
    second, and so on; then the next group comes.
    """
    size = group_size(ranks, microbatches)
    groups = [range(g, g + size) for g in range(0, microbatches, size)]
    passes = [(chunk, m) for g in groups for chunk in range(chunks) for m in g]
    returns = [(chunk, m) for g in groups for chunk in range(chunks)[::-1] for m in g]
    schedule = []
    for rank in range(ranks):
        forwards = [f"{chunk * ranks + rank}F{m}" for chunk, m in passes]
        backwards = [f"{chunk * ranks + rank}B{m}" for chunk, m in returns]
        ahead = min(2 * (ranks - 1 - rank) + (chunks - 1) * size, len(forwards))
        order = forwards[:ahead]
        for forward, backward in zip(forwards[ahead:], backwards, strict=False):
            order += [forward, backward]
        schedule.append(order + backwards[len(forwards) - ahead :])
    return schedule


def zero_bubble(stages: int, microbatches: int) -> Schedule:
    """The schedule 1F1B with backwards in two parts, the second in gaps: ZB-H1.

    Rank r does each W r micro-batches late. While the ranks above wait for gradients,
    the ranks below send them sooner; so no rank keeps more than 1F1B's rank 0
    (Qi et al. 2023).
    """
    schedule = []
    for rank, order in enumerate(one_f_one_b(stages, microbatches)):
        late = []
        for instruction in order:
            late.append(instruction)
            done = int(instruction[1:]) if instruction[0] == "B" else -1
            if done >= rank:
                late.append(f"W{done - rank}")
        first_left = max(microbatches - rank, 0)
        late += [f"W{m}" for m in range(first_left, microbatches)]
        schedule.append(late)
    return schedule


SCHEDULES_BY_NAME = {
    "naive": naive,
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zero-bubble": zero_bubble,
}


def read_schedule(text: str) -> Schedule:
    """A schedule from text: a line of instructions per rank; # comments are skipped."""
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return [order for order in lines if order]
