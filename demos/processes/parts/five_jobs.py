"""Five jobs. Which of them need a thread, which a process? Used by lesson 02.

Each job has a function `work` with its arguments, the `seconds` that it may take, and a
`promise`: what must be true afterwards in the program that had it done.
"""

import multiprocessing
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from time import sleep
from typing import NamedTuple

Process = multiprocessing.get_context("spawn").Process

FOLDER = os.getcwd()
counts = {"heads": 0}
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("create table visits (name text)")


@dataclass(frozen=True)
class Job:
    """`work(*args)` in a worker, `seconds` at most; then `promise()` must be true."""

    work: Callable
    promise: Callable[[], bool]
    args: tuple = ()
    seconds: float = 2


def count_heads_job() -> None:
    """Note a result in a dictionary of the program."""
    counts["heads"] += 10


def call_old_library_job() -> None:
    """Call a library that ends the whole program when it meets a bad file."""
    os._exit(1)


def search_for_ever_job() -> None:
    """Search for something that may not exist: this can take for ever."""
    parent = multiprocessing.parent_process()
    while parent is None or parent.is_alive():  # leaves nothing behind on your machine
        sleep(0.05)


def unpack_archive_job() -> None:
    """Unpack an archive; to do so it changes the current folder, and never back."""
    os.chdir(os.path.dirname(__file__))


def store_visit_job(connection: sqlite3.Connection) -> None:
    """Store a visit through the connection to the database that is already open."""
    connection.execute("insert into visits values ('Ada')")


def store_visit_job_is_done() -> bool:
    return database.execute("select count(*) from visits").fetchone() == (1,)


JOBS = {
    "count": Job(count_heads_job, promise=lambda: counts["heads"] == 10),
    "old library": Job(call_old_library_job, promise=lambda: True),
    "search": Job(search_for_ever_job, promise=lambda: True, seconds=0.5),
    "unpack": Job(unpack_archive_job, promise=lambda: os.getcwd() == FOLDER),
    "store": Job(store_visit_job, promise=store_visit_job_is_done, args=(database,)),
}
KINDS = {"thread": Thread, "process": Process}


class TrialOutcome(NamedTuple):
    """What came of a trial; printed, it is what there is to say."""

    end: str  # "kept", "broken", "raised", "hung", "ended", "stub" or something else
    said: str

    def __str__(self) -> str:
        return self.said


def job_in_a_trial(
    try_job: Callable, kind: str, name: str, seconds: float = 10
) -> TrialOutcome:
    """What comes of `try_job(kind, job)`: kept, broken or what went wrong.

    It runs in a process of its own, so that no job can end or change your program.
    """
    from sidebyside import RankFailed, RanksHung
    from sidebyside.failures import says_your_turn
    from sidebyside.ranks import call_in_processes

    try:
        [outcome] = call_in_processes(
            _job_in_its_process,
            [(try_job, kind, name)],
            seconds,
            start_method="spawn",
            name=name,
        )
    except RanksHung:
        return TrialOutcome("hung", "it did not end")
    except RankFailed as failed:
        if says_your_turn(failed.outcome):
            return TrialOutcome("stub", "your turn")
        return TrialOutcome("ended", "the whole program ended")
    return outcome


def _job_in_its_process(try_job: Callable, kind: str, name: str) -> TrialOutcome:
    try:
        kept = try_job(KINDS[kind], JOBS[name])
    except NotImplementedError:
        raise
    except Exception as error:
        return TrialOutcome("raised", f"raised {type(error).__name__}: {error}")
    if isinstance(kept, TrialOutcome):  # a proof that is watched may say more
        return kept
    said = "kept" if kept is True else "broken" if kept is False else f"{kept!r}"
    return TrialOutcome(said if isinstance(kept, bool) else "something else", said)
