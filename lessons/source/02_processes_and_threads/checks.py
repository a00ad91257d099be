"""The checks of the exercises of lesson 02."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from multiprocessing.process import BaseProcess
from threading import get_ident
from unittest.mock import patch

from demos.processes.parts.five_jobs import JOBS, KINDS, job_in_a_trial
from demos.processes.parts.squares_in_children import spawn
from demos.processes.small_firm import open_the_firm
from sidebyside.exercises import exercise, expect

FITS = {
    "count": "thread",
    "old library": "process",
    "search": "process",
    "unpack": "process",
    "store": "thread",
}


@exercise("02-firm", seconds=30)
def check_firm(belongs_to):
    known = "boss", "secretary", "foreman", "apprentice", "courier", "helper"
    real = open_the_firm()
    expect(
        isinstance(belongs_to, dict),
        tried="reading your answer",
        got=belongs_to,
        think="the form: belongs_to is a dictionary",
    )
    unknown = ", ".join(str(name) for name in belongs_to if name not in real) or "none"
    missing = ", ".join(name for name in real if name not in belongs_to) or "none"
    expect(
        unknown == missing == "none",
        tried="reading your answer",
        got=f"unknown names: {unknown}; missing names: {missing}",
        think="the dictionary: it has one entry for each of the five, and no other",
    )
    for name, where in belongs_to.items():
        expect(
            where in known,
            tried=f"belongs_to[{name!r}]",
            got=where,
            think="the names: only those of the firm are allowed, with boss",
        )
    expect(
        "helper" not in [belongs_to[name] for name in real if name != "helper"],
        tried="opening the firm; nobody in it has the helper as its parent",
        got=belongs_to,
        think="what the helper is: can a thread be the parent of a process?",
    )
    for name in real:
        expect(
            belongs_to[name] == real[name],
            tried=f"opening the firm and reading what {name} has signed",
            got=f"{name} does not belong to {belongs_to[name]}",
            think=f"which process runs the line that starts {name}",
        )


# The long part is not done first, and does not fit into a pipe; 60,000 squared needs
# 64 bits.
PARTS = [[1, -2], list(range(60_000, 0, -1)), []]
SQUARES = [[n * n for n in part] for part in PARTS]
WAYS = {
    "through_pipes": "send_squares",
    "through_a_queue": "put_squares",
    "through_shared_memory": "square_in_place",
}


@exercise("02-three-ways", seconds=20)
def check_three_ways(through_pipes, through_a_queue, through_shared_memory):
    ways = through_pipes, through_a_queue, through_shared_memory
    not_started = []
    for name, way in zip(WAYS, ways, strict=True):
        try:
            _check_way(name, way)
        except NotImplementedError:
            not_started.append(name)
    if len(not_started) == len(WAYS):
        raise NotImplementedError("your turn")
    right = ", ".join(name for name in WAYS if name not in not_started)
    expect(
        not not_started,
        tried="each of the three functions",
        got=f"right: {right}; not started: {', '.join(not_started)}",
        think="the next one: what changes on the way back?",
    )


def _check_way(name: str, way: Callable) -> None:
    sizes = " and ".join(str(len(part)) for part in PARTS)
    tried = f"{name}(parts), parts with {sizes} numbers"
    with _watched() as (target_of, steps):
        got = way([list(part) for part in PARTS])
    expect(
        isinstance(got, list) and len(got) == len(PARTS),
        tried=tried,
        got=got,
        think="what is returned: a list with one entry for each part",
    )
    for pair in got:
        expect(
            isinstance(pair, tuple | list) and len(pair) == 2,
            tried=tried,
            got=got,
            think="what one entry is: a pair (process id, squares), and nothing more",
        )
    ids, found = [pid for pid, _ in got], [list(squares) for _, squares in got]
    signed = all(pid in target_of for pid in ids)
    expect(
        found == SQUARES,
        tried=tried,
        got=got,
        think=_where_squares_go_wrong(found, signed),
    )
    expect(
        signed and len(set(ids)) == len(ids),
        tried=tried + ", and looking at the process ids",
        got=f"you started {len(target_of)} children, the results are signed by {ids}",
        think="the signatures: has one of them been written by all?"
        if signed and len(target_of) == len(ids)
        else "who did the work: each part has a child process of its own",
    )
    others = {child for child in WAYS.values() if child != WAYS[name]}
    expect(
        not others & {target_of[pid] for pid in ids},
        tried=tried + ", and looking at what the children do",
        got=", ".join(sorted({target_of[pid] for pid in ids})),
        think=f"the way back: here the children are to do {WAYS[name]}",
    )
    for of_thread in steps.values():
        of_children = [pid for pid in of_thread if pid is None or pid in ids]
        marks = ["start" if pid else "wait" for pid in of_children]
        expect(
            not re.search("start (wait )+start", " ".join(marks)),
            tried=tried + ", and looking at the order of your steps",
            got=", ".join(marks),
            think="the moment when you start the second child: is the first one still "
            "at work then, or have you waited for it?",
        )


def _where_squares_go_wrong(found: list[list[int]], signed: bool) -> str:
    if sorted(found) == sorted(SQUARES):
        return "the order: who is first in your list, and who was first to arrive?"
    if signed and found == PARTS:
        return "the numbers: do they belong to both processes, or has the child a copy?"
    lengths = [len(part) for part in found] == [len(part) for part in PARTS]
    pairs = zip(chain(*found), chain(*SQUARES), strict=False)
    if lengths and all((number - square) % 256 == 0 for number, square in pairs):
        return "the size of a number: has a large square room in a place of the array?"
    return "the moment at which you read: had the child written everything by then?"


@contextmanager
def _watched() -> Iterator[tuple[dict, dict]]:
    """What the answer does with processes: the target of each that it starts, by pid.

    And the steps of each of its threads: the pid of a process that was started, or
    None for a wait, be it for an end or for a message.
    """
    target_of, steps = {}, defaultdict(list)

    def start(process):
        target = getattr(process, "_target", None)
        begin(process)
        target_of[process.pid] = getattr(target, "__name__", "something else")
        steps[get_ident()].append(process.pid)

    def noted(wait):
        def noted_wait(*args, **options):
            steps[get_ident()].append(None)
            return wait(*args, **options)

        return noted_wait

    begin, receiver = BaseProcess.start, type(spawn.Pipe()[0])
    waits = (BaseProcess, "join"), (receiver, "recv"), (receiver, "recv_bytes")
    with ExitStack() as stack:
        stack.enter_context(patch.object(BaseProcess, "start", start))
        for kind, name in waits:
            wait = noted(getattr(kind, name))
            stack.enter_context(patch.object(kind, name, wait))
        yield target_of, steps


@exercise("02-choose", seconds=90)
def check_choose(choice, try_job):
    expect(
        isinstance(choice, dict) and set(choice) == set(JOBS),
        tried="reading your choice",
        got=choice,
        think="the dictionary: one entry for each of the five jobs",
    )
    expect(
        all(kind in KINDS for kind in choice.values()),
        tried="reading your choice",
        got=choice,
        think='the values: they are the words "thread" and "process"',
    )
    said = {}
    for name, fit in FITS.items():
        for kind in KINDS:
            said[name, kind] = outcome = job_in_a_trial(
                _with_a_look_at_seconds(try_job), kind, name, seconds=6
            )
            if outcome == "your turn":
                raise NotImplementedError(outcome)
            due = "kept" if kind == fit else "broken"
            expect(
                outcome.startswith((due, _ALSO.get((name, kind), due))),
                tried=f"in_a_trial(try_job, {kind!r}, {name!r})",
                got=outcome.strip("'"),
                think=_advice(outcome),
            )
    for name, kind in choice.items():
        expect(
            kind == FITS[name],
            tried=f"your own proof: in_a_trial(try_job, {kind!r}, {name!r})",
            got=said[name, kind],
            think=f"what the job {name!r} must share with the program, or must not",
        )


def _with_a_look_at_seconds(try_job: Callable) -> Callable:
    """The same proof; one that says False without having read `job.seconds` tells."""

    class Watched:
        asked = False

        def __init__(self, job):
            self.job = job

        def __getattr__(self, name):
            Watched.asked |= name == "seconds"
            return getattr(self.job, name)

    def proof(kind, job):
        kept = try_job(kind, Watched(job))
        return _NEVER_ASKED if kept is False and not Watched.asked else kept

    return proof


_NEVER_ASKED = "False, and job.seconds was never read"
_ENDLESS, _ENDED = "it did not end", "the whole program ended"
_ALSO = {("old library", "thread"): _ENDED, ("store", "process"): "raised "}
_ADVICE = {
    "kept": "your proof: a worker of the wrong kind passes it. Does a worker of this "
    "kind do the work, and do you look at the worker and at the promise afterwards?",
    "broken": "your proof: the right kind fails it. Is the work done, and has the "
    "worker ended, at the moment when you look? If an error stands above, read it",
    _ENDLESS: "your proof: which line waits longer than job.seconds?",
    _ENDED: "your proof: in which process is the work done?",
    repr(_NEVER_ASKED): "your proof: how long does it wait for a worker, and how long "
    "may it? Each job says so",
    "raised": "your proof: the line that raised this. Is it right for both kinds?",
}


def _advice(outcome: str) -> str:
    key = "raised" if outcome.startswith("raised ") else outcome
    return _ADVICE.get(key, "what your proof returns: True or False, for all kinds")
