"""The checks of the exercises of lesson 02."""

import os

from demos.processes.five_jobs import JOBS, KINDS, in_a_trial
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
        isinstance(belongs_to, dict) and set(belongs_to) == set(real),
        tried="reading your answer",
        got=belongs_to,
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
        "helper" not in belongs_to.values(),
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


PARTS = [[1, 2], [3], []], [list(range(60_000, 0, -1)), [5, -7]], []


@exercise("02-three-ways", seconds=60)
def check_three_ways(through_pipes, through_a_queue, through_shared_memory):
    for way in through_pipes, through_a_queue, through_shared_memory:
        for parts in PARTS:
            _check_way(way, parts)


def _check_way(way, parts):
    name = getattr(way, "__name__", "your function")
    sizes = " and ".join(str(len(part)) for part in parts) or "no"
    tried = f"{name}(parts), parts with {sizes} numbers"
    got = way([list(part) for part in parts])
    expect(
        isinstance(got, list) and len(got) == len(parts),
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
    squares = [[n * n for n in part] for part in parts]
    returned = [list(found) for _, found in got]
    in_any_order = sorted(returned) == sorted(squares)
    expect(
        returned == squares,
        tried=tried,
        got=got,
        think="the order: who is first in your list, and who was first to arrive?"
        if in_any_order
        else "the moment at which you read: had the child written everything by then?",
    )
    ids = [pid for pid, _ in got]
    expect(
        os.getpid() not in ids and len(set(ids)) == len(ids) and all(ids),
        tried=tried + ", and looking at the process ids",
        got=f"the parent is {os.getpid()}, the results are signed by {ids}",
        think="who did the work: each part has a child process of its own",
    )


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
            said[name, kind] = outcome = in_a_trial(try_job, kind, name, seconds=6)
            if outcome == "your turn":
                raise NotImplementedError(outcome)
            expect(
                outcome != _ENDLESS and (outcome == "kept") == (kind == fit),
                tried=f"in_a_trial(try_job, {kind!r}, {name!r})",
                got=outcome,
                think=_ADVICE.get(outcome, _ADVICE["else"]),
            )
    for name, kind in choice.items():
        expect(
            kind == FITS[name],
            tried=f"your own proof: in_a_trial(try_job, {kind!r}, {name!r})",
            got=said[name, kind],
            think=f"what the job {name!r} must share with the program, or must not",
        )


_ENDLESS = "it did not end"
_ADVICE = {
    "kept": "your proof: a worker of the wrong kind passes it. Does a worker of this "
    "kind do the work, and do you look at the worker and at the promise afterwards?",
    "broken": "your proof: the right kind fails it. Is the work done, and has the "
    "worker ended, at the moment when you look?",
    _ENDLESS: "your proof: which line waits without a limit?",
    "else": "what your proof returns: True or False, for every kind and job",
    "the whole program ended": "your proof: in which process is the work done?",
}
