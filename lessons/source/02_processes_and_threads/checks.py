"""The checks of the exercises of lesson 02."""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from multiprocessing import active_children, connection
from multiprocessing.process import BaseProcess
from threading import Timer
from time import sleep
from typing import NamedTuple
from unittest.mock import patch

from demos.processes.small_firm import open_the_firm
from lessons.props.processes_and_threads import (
    JOBS,
    KINDS,
    TrialOutcome,
    job_in_a_trial,
)
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.expectations import Expect, NotStarted
from sidebyside.ranks.by_value import packed_answer

NEEDS = {  # the kind that fits, and the question that leads to it
    "count": ("thread", "what must its worker share with the program?"),
    "old library": ("process", "what must its worker not be able to end?"),
    "search": ("process", "which kind of worker can be ended when its time is up?"),
    "unpack": ("process", "what must its worker not be able to change?"),
    "store": ("thread", "what must its worker share with the program?"),
}

NAMES = "secretary", "foreman", "apprentice", "helper", "courier"


@exercise("02-firm", seconds=30)
def check_02_firm(belongs_to):
    with trying("belongs_to") as expect:
        unknown = ", ".join(str(name) for name in belongs_to if name not in NAMES)
        missing = ", ".join(name for name in NAMES if name not in belongs_to)
        think = "the keys, names of the five: does an entry give a parent, or children?"
        expect(not unknown, got=f"unknown names: {unknown}", think=think)
        think = "the dictionary: one entry for each of the five"
        expect(not missing, got=f"missing names: {missing}", think=think)
    with trying("belongs_to, and reading what they all have signed") as expect:
        signed = open_the_firm()
        for name in NAMES:
            where = belongs_to[name]
            think = f"the line that starts {name}: which process runs it?"
            if where not in ("boss", *NAMES):
                think = "the names: who is in the firm besides the boss and the five?"
            elif where == "helper":
                think = "a thread: can it be a parent? In which process is the helper?"
            got = f"{name} does not belong to {where}"
            expect(where == signed[name], got=got, think=think)


# The long parts are not done first, and do not fit into a pipe.
PARTS = [[1, 2], list(range(45_000, 0, -1)), [3], list(range(30_000))]
WAYS = {
    "through_pipes": "send_squares",
    "through_a_queue": "put_squares",
    "through_shared_memory": "square_in_place",
}


@exercise(
    "02-three-ways",
    seconds=40,
    when_hung="what would have to happen for this line to end: does a child wait for a "
    "reader while you wait for its end, or you for a message that no child sends?",
)
def check_02_three_ways(through_pipes, through_a_queue, through_shared_memory):
    ways = through_pipes, through_a_queue, through_shared_memory
    not_started = []
    for name, way in zip(WAYS, ways, strict=True):
        try:
            _expect_squares_of_children(name, way)
        except NotImplementedError:
            not_started.append(name)
    if len(not_started) == len(WAYS):
        raise NotStarted
    with trying("each of the three functions") as expect:
        right = ", ".join(name for name in WAYS if name not in not_started)
        expect(
            not not_started,
            got=f"right: {right}; not started: {', '.join(not_started)}",
            think="the next one: what changes on the way back?",
        )


def _expect_squares_of_children(name: str, way: Callable) -> None:
    sizes = " and ".join(str(len(part)) for part in PARTS)
    with trying(f"{name}(parts), parts with {sizes} numbers", PARTS) as expect:
        # long enough for the other messages to overtake the first one in the queue
        pause = 2 if name == "through_a_queue" else 0.7
        with _first_child_pauses(pause) as (children, too_late):
            got = way(PARTS)
        targets = {child.target for child in children}
        expect(
            not targets & {*WAYS.values()} - {WAYS[name]},
            got="children that do " + ", ".join(targets),
            think=f"the way back: is it {WAYS[name]} that your children do here?",
        )
        pairs = isinstance(got, list) and len(got) == len(PARTS)
        expect(
            pairs and all(isinstance(p, tuple | list) and len(p) == 2 for p in got),
            got=got,
            think="what is returned: one pair (process id, squares) for each part, in "
            "a list. If some are missing, what told you that all had arrived?",
        )
        pids = [pid for pid, _ in got]
        expect(
            sorted(pids) == sorted(child.pid for child in children),
            got=f"you started {len(children)} children, and the process ids are {pids}",
            think="the process ids: has each part a child of its own, and had it "
            "written its id, in a place of its own, when you read it?",
        )
        _expect_squares(expect, [list(part) for _, part in got])
        expect(
            not too_late,
            got="a child that started when the first one had ended",
            think="the moment when you start each child: are those before it still at "
            "work then, or have you waited for one?",
        )
        left = sum(not child.has_ended() for child in children)
        expect(
            not left,
            got=f"children that have not ended: {left}",
            think="the end of each child: who waits for it?",
        )


def _expect_squares(expect: Expect, found: list[list[int]]) -> None:
    right = [[n * n for n in part] for part in PARTS]
    think = "the moment at which you read: had the child written everything by then?"
    if sorted(found) == sorted(right):
        think = "the order: who is first in your list, and who was first to arrive?"
    elif found == PARTS:
        think = "the numbers: do they belong to both processes, or has the child a "
        think += "copy?"
    expect(found == right, got=found, think=think)


class _Child(NamedTuple):
    """A process that the answer has started."""

    process: BaseProcess
    pid: int
    target: str

    def has_ended(self) -> bool:
        try:
            return bool(connection.wait([self.process.sentinel], 0))
        except ValueError:  # it is closed
            return True


def _lingering(target: Callable, *args, **options) -> None:
    """So that a child that nobody waits for has not ended when the answer returns."""
    target(*args, **options)
    sleep(0.3)


@contextmanager
def _first_child_pauses(seconds: float) -> Iterator[tuple[list[_Child], list]]:
    """The children that the answer starts, and those that it starts too late.

    The first one pauses for a while. So if it has ended when another one starts, the
    answer has waited for it.
    """
    children, too_late, begin = [], [], BaseProcess.start
    can_pause = hasattr(signal, "SIGSTOP")

    def go_on() -> None:
        with suppress(ProcessLookupError):
            os.kill(children[0].pid, signal.SIGCONT)

    def start(process) -> None:
        if children and can_pause and children[0].has_ended():
            too_late.append(process)
        target = process._target.__name__  # gone when it has started
        process._args = process._target, *process._args
        process._target = _lingering
        begin(process)
        children.append(_Child(process, process.pid, target))
        if can_pause and len(children) == 1:
            os.kill(process.pid, signal.SIGSTOP)
            timer.start()

    timer = Timer(seconds, go_on)
    timer.daemon = True
    with patch.object(BaseProcess, "start", start):
        yield children, too_late


@exercise("02-choose", seconds=90)
def check_02_choose(choice, try_job):
    with trying("your choice") as expect:
        expect(
            set(choice) == set(JOBS) and set(choice.values()) <= set(KINDS),
            got=choice,
            think='the dictionary: "thread" or "process" for each of the five jobs',
        )
    sent = packed_answer(try_job)  # its locks, too
    for takes, seconds, due in (1, 5, "kept"), (1.5, 0.3, "broken"):
        tried = f"try_job(Thread, job) with {seconds} s for a work that takes {takes} s"
        with trying(tried) as expect:
            nap = {"work": sleep, "args": (takes,), "promise": lambda: True}
            proof = _watched(sent, **nap, seconds=seconds)
            _expect_proof(expect, proof, "thread", "count", due, _OF_TIME)
    said = {}
    for name, kind in product(NEEDS, KINDS):
        with trying(f"job_in_a_trial(try_job, {kind!r}, {name!r})") as expect:
            due = "kept" if kind == NEEDS[name][0] else "broken"
            proof = _watched(sent)
            said[name, kind] = _expect_proof(expect, proof, kind, name, due, _ADVICE)
    for name, kind in choice.items():
        with trying(f"your own proof of {kind!r} and {name!r}") as expect:
            expect(
                kind == NEEDS[name][0],
                got=said[name, kind],
                think=f"the job {name!r}: {NEEDS[name][1]}",
            )


def _watched(sent: bytes, **changes: object) -> Callable:
    """The same proof, of a job with these changes; it tells if a process is left."""

    def proof(kind, job):
        kept = pickle.loads(sent)(kind, replace(job, **changes))
        if kept is True and active_children():
            return TrialOutcome("left", "True, and a process was still at work")
        return kept

    return proof


def _expect_proof(
    expect: Expect, proof: Callable, kind: str, name: str, due: str, advice: dict
) -> str:
    """What the proof says, in words: what is due, or as good."""
    outcome = job_in_a_trial(proof, kind, name)
    if outcome.end == "stub":
        raise NotStarted
    returns = "what your proof returns: True or False, for all kinds"
    said = f"from your proof: {outcome.said}"
    right = outcome.end in (due, _ALSO.get((name, kind)))
    expect(right, got=said, think=advice.get(outcome.end, returns))
    return said


_ALSO = {("old library", "thread"): "ended", ("store", "process"): "raised"}
_ADVICE = {
    "kept": "your proof: a worker of the wrong kind passes it. Does a worker of this "
    "kind do the work, and do you look at the worker and at the promise afterwards?",
    "broken": "your proof: the right kind fails it. When you look, is the work done "
    "and the worker ended? And do you ask for more than the promise?",
    "hung": "your proof: which line waits longer than job.seconds?",
    "ended": "your proof: in which process is the work done?",
    "raised": "your proof: the line that raised this. Is it right for both kinds?",
    "left": "your proof: who ends a worker that still works, and can be?",
}
_OF_TIME = _ADVICE | dict.fromkeys(
    ("kept", "broken"),
    "your proof: how long does it wait for its worker, which number of the job says "
    "how long it may, and does it see whether the worker has ended by then?",
)
