"""The rules of a pipeline, and what follows from them without running anything."""

from collections.abc import Sequence
from typing import NamedTuple

from parallel_by_hand.pipeline.schedules import (
    EveryoneWaits,
    IllegalSchedule,
    Schedule,
    ScheduledWork,
    read_instruction,
)

Times = float | Sequence[float]  # of all stages alike, or of each


class Slot(NamedTuple):
    """By a schedule's rules, `rank` runs `instruction` from `start` to `end`."""

    start: float
    end: float
    rank: int
    instruction: str


def needs(work: ScheduledWork, stages: int) -> list[ScheduledWork]:
    """By a schedule's rules: what must be finished before `work` can start."""
    kind, stage, microbatch = work
    if kind == "F":  # forward flows down
        return [ScheduledWork("F", stage - 1, microbatch)] if stage > 0 else []
    if kind == "W":  # what the first part of this backward has computed on the way
        return [ScheduledWork("B", stage, microbatch)]
    own_forward = ScheduledWork("F", stage, microbatch)  # it kept what this needs
    if stage == stages - 1:
        return [own_forward]
    return [own_forward, ScheduledWork("B", stage + 1, microbatch)]  # gradients flow up


def schedule_size(schedule: Schedule) -> tuple[int, int]:
    """A schedule's number of stages and of micro-batches."""
    for rank, order in enumerate(schedule):
        if not isinstance(order, list | tuple):
            what = "a string" if isinstance(order, str) else repr(order)
            problem = f"rank {rank}: each rank needs a list, not {what}"
            raise IllegalSchedule(problem, rank)
    works = [
        read_instruction(i, rank) for rank, order in enumerate(schedule) for i in order
    ]
    if not works:
        raise IllegalSchedule("the schedule is empty: no rank has an instruction")
    stages = 1 + max(max(work.stage for work in works), len(schedule) - 1)
    return stages, 1 + max(work.microbatch for work in works)


def homes_of_stages(schedule: Schedule) -> list[int]:
    """The rank that each stage lives on.

    Stage s lives on rank s % ranks, unless it stands in the lists of other ranks alone.
    """
    stages, _ = schedule_size(schedule)
    homes = [stage % len(schedule) for stage in range(stages)]
    held = [
        {read_instruction(instruction, rank).stage for instruction in order}
        for rank, order in enumerate(schedule)
    ]
    for rank, here in enumerate(held):
        for stage in here:
            if stage not in held[homes[stage]]:
                homes[stage] = rank
    return homes


def kinds_of_work(schedule: Schedule) -> str:
    """In a schedule: "FBW" if any backward is in two parts, else "FB"."""
    works = (i for order in schedule for i in order)
    return "FBW" if any("W" in str(instruction) for instruction in works) else "FB"


def why_illegal(schedule: Schedule) -> IllegalSchedule | None:
    """Why no pipeline can run this schedule; None when one can."""
    try:
        timetable(schedule)
    except IllegalSchedule as problem:
        return problem
    return None


def verdict(schedule: Schedule) -> str:
    """ "legal", or a sentence that says why no pipeline can run this schedule."""
    return str(why_illegal(schedule) or "legal")


def timetable(
    schedule: Schedule, forward: Times = 1, backward: Times = 1, weights: Times = 1
) -> list[Slot]:
    """Run `schedule` on paper: every instruction starts as early as the rules allow.

    `forward`, `backward` and `weights` (of F, B and W) are the time that a stage needs
    for one micro-batch: one number, or one for each stage. Raises IllegalSchedule.
    """
    stages, _ = schedule_size(schedule)
    takes = {
        "F": _times_by_rule(forward, stages),
        "B": _times_by_rule(backward, stages),
        "W": _times_by_rule(weights, stages),
    }
    _check_rule_of_completeness(schedule)
    finished: dict[ScheduledWork, float] = {}
    free: list[float] = [0] * len(schedule)  # when each rank is free again
    position = [0] * len(schedule)
    slots: list[Slot] = []
    moving = True
    while moving:
        moving = False
        for rank, order in enumerate(schedule):
            while position[rank] < len(order):
                work = read_instruction(order[position[rank]], rank)
                before = needs(work, stages)
                if not all(other in finished for other in before):
                    break
                start = max([free[rank], *(finished[other] for other in before)])
                end = start + takes[work.kind][work.stage]
                slots.append(Slot(start, end, rank, order[position[rank]]))
                finished[work] = free[rank] = end
                position[rank] += 1
                moving = True
    if len(slots) < sum(map(len, schedule)):
        raise EveryoneWaits(_who_waits_for_whom(schedule, position, finished))
    return sorted(slots)


def timetable_length(slots: list[Slot]) -> float:
    """What follows from a schedule: time from the first start to the last end."""
    return max(slot.end for slot in slots) - min(slot.start for slot in slots)


def bubble(slots: list[Slot]) -> float:
    """What follows from a schedule: the share of ranks' time that is spent waiting."""
    ranks = 1 + max(slot.rank for slot in slots)
    busy = sum(slot.end - slot.start for slot in slots)
    return 1 - busy / (ranks * timetable_length(slots))


def peak_activations(schedule: Schedule) -> list[int]:
    """What follows from a schedule: the most forwards that wait for their backward."""
    change = {"F": 1, kinds_of_work(schedule)[-1]: -1}
    peaks = []
    for rank, order in enumerate(schedule):
        kept = peak = 0
        for instruction in order:
            kept += change.get(read_instruction(instruction, rank).kind, 0)
            peak = max(peak, kept)
        peaks.append(peak)
    return peaks


def _times_by_rule(time: Times, stages: int) -> list[float]:
    times: list[float]
    times = [time] * stages if isinstance(time, int | float) else list(time)
    if len(times) != stages:
        raise ValueError(f"{len(times)} times were given for {stages} stages")
    return times


def _check_rule_of_completeness(schedule: Schedule) -> None:
    """Every stage does each F, B (and W) once, on its own rank, in this order."""
    _, microbatches = schedule_size(schedule)
    kinds, homes = kinds_of_work(schedule), homes_of_stages(schedule)
    for rank, order in enumerate(schedule):
        done: set[ScheduledWork] = set()
        for instruction in order:
            work = read_instruction(instruction, rank)
            home = homes[work.stage]
            if home != rank:
                raise IllegalSchedule(
                    f"rank {rank} cannot run {instruction}: stage {work.stage} lives "
                    f"on rank {home}",
                    rank,
                )
            if work in done:
                raise IllegalSchedule(f"rank {rank} runs {instruction} twice", rank)
            before = {"B": "F", "W": "B"}.get(work.kind)
            if before and work._replace(kind=before) not in done:
                why = "a backward needs what its forward has kept"
                if work.kind == "W":
                    why = "W needs the gradients that B computes on its way"
                raise IllegalSchedule(
                    f"rank {rank} runs {instruction} before "
                    f"{instruction.replace(work.kind, before)}: {why}",
                    rank,
                )
            done.add(work)
        for stage in [s for s, home in enumerate(homes) if home == rank]:
            for m in range(microbatches):
                for kind in kinds:
                    if ScheduledWork(kind, stage, m) not in done:
                        missing = _as_written(ScheduledWork(kind, stage, m), schedule)
                        raise IllegalSchedule(f"rank {rank} never runs {missing}", rank)


def _who_waits_for_whom(schedule: Schedule, position, finished) -> str:
    """Name, for each rank that is stuck, what it waits for."""
    homes, waits = homes_of_stages(schedule), []
    for rank, order in enumerate(schedule):
        if position[rank] < len(order):
            instruction = order[position[rank]]
            missing = next(
                other
                for other in needs(read_instruction(instruction, rank), len(homes))
                if other not in finished
            )
            waits.append(
                f"rank {rank} cannot start {instruction} before rank "
                f"{homes[missing.stage]} has done " + _as_written(missing, schedule)
            )
    return "everyone waits: " + "; ".join(waits)


def _as_written(work: ScheduledWork, schedule: Schedule) -> str:
    """`work` as its schedule writes it."""
    stages, _ = schedule_size(schedule)
    stage = work.stage if stages > len(schedule) else ""
    return f"{stage}{work.kind}{work.microbatch}"
