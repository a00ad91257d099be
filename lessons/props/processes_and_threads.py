"""Lesson 02: five jobs for a thread or a process, and what children do for it."""

import multiprocessing
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from time import sleep
from typing import NamedTuple

Process = multiprocessing.get_context("spawn").Process

FOLDER = os.stat(".")  # it may have been deleted, and then has no name
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


def _count_heads() -> None:
    """Note a result in a dictionary of the program."""
    counts["heads"] += 10


def _call_old_library() -> None:
    """Call a library that ends the whole program when it meets a bad file."""
    os._exit(1)


def _search_for_ever() -> None:
    """Search for something that may not exist: this can take for ever."""
    parent = multiprocessing.parent_process()
    while parent is None or parent.is_alive():  # leaves nothing behind on your machine
        sleep(0.05)


def _unpack_archive() -> None:
    """Unpack an archive; to do so it changes the current folder, and never back."""
    os.chdir(os.path.dirname(__file__))


def _folder_is_the_same() -> bool:
    return os.path.samestat(os.stat("."), FOLDER)


def _store_visit(connection: sqlite3.Connection) -> None:
    """Store a visit through the connection to the database that is already open."""
    connection.execute("insert into visits values ('Ada')")


def _visit_is_stored() -> bool:
    return database.execute("select count(*) from visits").fetchone() == (1,)


JOBS = {
    "count": Job(_count_heads, promise=lambda: counts["heads"] == 10),
    "old library": Job(_call_old_library, promise=lambda: True),
    "search": Job(_search_for_ever, promise=lambda: True, seconds=0.5),
    "unpack": Job(_unpack_archive, promise=_folder_is_the_same),
    "store": Job(_store_visit, promise=_visit_is_stored, args=(database,)),
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
    from sidebyside.exercises.findings import says_your_turn
    from sidebyside.ranks.launch import call_in_processes

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


COLOUR = re.compile(r"\x1b\[[\d;]*m")


@contextmanager
def overheard() -> Iterator[list[str]]:
    """`with overheard() as lines:` collect what child processes say as they fail.

    Children write to file descriptor 2, as their parent does. Inside the block that
    is a temporary file; the list is filled at the end of the block, without colours
    (since Python 3.13 an error has some).
    """
    lines: list[str] = []
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            said = file.read().decode(errors="replace")
            lines += COLOUR.sub("", said).splitlines()


def call_by_value(pickled: bytes, *args):
    """Unpack a function that was sent with its code, and call it."""
    import cloudpickle

    return cloudpickle.loads(pickled)(*args)


spawn = multiprocessing.get_context("spawn")


def send_squares(connection, numbers: list[int]) -> None:
    """Send (process id, squares) through a pipe."""
    squares = [n * n for n in numbers]
    connection.send((os.getpid(), squares))


def put_squares(queue, part: int, numbers: list[int]) -> None:
    """Put (part, process id, squares) into a queue that several children use."""
    squares = [n * n for n in numbers]
    queue.put((part, os.getpid(), squares))


def square_in_place(shared, signature) -> None:
    """Replace each number in shared memory by its square; sign with the process id."""
    for place, n in enumerate(shared):
        shared[place] = n * n
    signature.value = os.getpid()
