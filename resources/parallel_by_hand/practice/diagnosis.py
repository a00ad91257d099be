"""Why is it not faster? Six measurements, in the order in which to look."""

import pickle
from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter, process_time, sleep
from typing import NamedTuple


class DiagnosisFinding(NamedTuple):
    """One question of the diagnosis, what was measured, and whether it looks bad."""

    question: str
    measured: str
    suspicious: bool | None  # None: not measured


class DiagnosedTask(NamedTuple):
    """For the diagnosis: what one task used, bytes of its argument and its result."""

    wall: float
    cpu: float
    pack: float  # CPU seconds to pickle and unpickle both
    bytes: int


def time_task_for_diagnosis(work: Callable, task: object) -> DiagnosedTask:
    """Do one task here, and send its argument and result nowhere."""
    start, cpu = perf_counter(), process_time()
    result = work(task)
    wall, cpu = perf_counter() - start, process_time() - cpu
    start = process_time()
    packed = [pickle.dumps(task), pickle.dumps(result)]
    for data in packed:
        pickle.loads(data)
    return DiagnosedTask(wall, cpu, process_time() - start, sum(map(len, packed)))


def _cpu_of(work: Callable, task: object) -> float:
    """Runs in a worker."""
    start = process_time()
    work(task)
    return process_time() - start


def _empty_task(task: object) -> None:
    """A task without work: what remains is the price of a message."""


def message_time_for_diagnosis(pool, workers: int) -> float:
    """Seconds that a task without work takes in this pool."""
    count = 50 * workers
    list(pool.map(_empty_task, range(workers)))  # the workers have started
    start = perf_counter()
    list(pool.map(_empty_task, range(count)))
    return (perf_counter() - start) / count


def slowdown_for_diagnosis(pool, work: Callable, task: object, workers: int) -> float:
    """How many times as much CPU time a task takes beside others as alone.

    A core that waits for memory counts as busy, so crowded memory shows here.
    """
    # First calls are dearer.
    list(pool.map(_cpu_of, [work] * workers, [task] * workers))
    alone = [pool.submit(_cpu_of, work, task).result() for _ in range(3)]
    crowd = list(pool.map(_cpu_of, [work] * 3 * workers, [task] * 3 * workers))
    return median(crowd) / median(alone)


def come_to_rest_before_diagnosis() -> None:
    """Wait until nothing computes here: a library's threads spin on for a moment."""
    for _ in range(20):
        cpu = process_time()
        sleep(0.05)
        if process_time() - cpu < 0.005:
            break


def diagnose(
    work: Callable, tasks: Sequence, pool, workers: int
) -> list[DiagnosisFinding]:
    """The diagnosis: do the tasks here, one by one, then a few of them in the pool."""
    come_to_rest_before_diagnosis()
    work(tasks[0])  # the first call may load what later ones have
    found = [time_task_for_diagnosis(work, task) for task in tasks]
    wall, cpu = sum(t.wall for t in found), sum(t.cpu for t in found)
    # Who computes has a core for one task at least, however busy the machine is.
    waits = all(t.cpu < 0.1 * t.wall for t in found)
    costs = [t.wall if waits else t.cpu for t in found]
    each, message = sum(costs) / len(costs), message_time_for_diagnosis(pool, workers)
    packing = sum(t.pack for t in found) / sum(costs)
    size = sum(t.bytes for t in found) / len(found) / 1e6
    longest = max(costs) / sum(costs)
    crowded = None
    if not waits and each > 2 * message:
        crowded = slowdown_for_diagnosis(
            pool, work, tasks[costs.index(max(costs))], workers
        )
    return [
        DiagnosisFinding(
            "Is a task longer than a message?",
            f"task {1000 * each:.3f} ms, message {1000 * message:.3f} ms",
            each < 2 * message,
        ),
        DiagnosisFinding(
            "Does it compute?", f"CPU {cpu / wall:.0%} of the time", waits
        ),
        DiagnosisFinding(
            "Does it use one core?",
            f"CPU {cpu / wall:.0%} of the time",
            cpu > 1.3 * wall,
        ),
        DiagnosisFinding(
            "Is little sent?",
            f"{size:.3f} MB a task; packing costs {packing:.0%} of it",
            packing > 0.3,
        ),
        DiagnosisFinding(
            "Is no task much longer than others?",
            f"the longest is {longest:.0%} of all",
            longest > 1.3 / workers,
        ),
        DiagnosisFinding(
            "Do workers leave each other alone?",
            f"beside others {crowded:.2f} × the CPU time"
            if crowded
            else "not measured",
            crowded > 1.5 if crowded else None,
        ),
    ]


def findings_table(findings: list[DiagnosisFinding]) -> str:
    """The diagnosis as a table, a line for each finding."""
    marks, lines = {True: "LOOK", False: "ok", None: "-"}, []
    for question, measured, suspicious in findings:
        lines.append(f"{marks[suspicious]:<5} {question:<35} {measured}")
    return "\n".join(lines)
