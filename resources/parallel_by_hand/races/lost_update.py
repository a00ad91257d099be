"""Workers that add to one number, and the updates that get lost."""

import multiprocessing
from collections.abc import Callable
from threading import Barrier, Lock, Thread
from types import SimpleNamespace

# "spawn" is the one start method that Linux, macOS and Windows have in common.
CONTEXT = multiprocessing.get_context("spawn")


def add_one(x, lock, updates: int) -> None:
    """Updates that may get lost: read, add, write."""
    for _ in range(updates):
        x.value = x.value + 1


def add_int_one(x, lock, updates: int) -> None:
    """Updates that get lost more often: a call lies between reading and writing."""
    for _ in range(updates):
        x.value = x.value + int(1)


def add_with_lock(x, lock, updates: int) -> None:
    """No update is lost: one at a time, with a lock."""
    for _ in range(updates):
        with lock:
            x.value = x.value + int(1)


def _start_together(gate, add: Callable, x, lock, updates: int) -> None:
    gate.wait()  # until all workers are there: some take longer to start
    add(x, lock, updates)


def count_in_threads(add: Callable, updates: int, workers: int = 2) -> int:
    """What x is after threads with updates that may get lost: `updates` each."""
    x, lock, gate = SimpleNamespace(value=0), Lock(), Barrier(workers)
    return _count_updates(Thread, (gate, add, x, lock, updates), workers)


def count_in_processes(add: Callable, updates: int, workers: int = 2) -> int:
    """The same with processes: x is 8 bytes of memory that they share."""
    x, lock, gate = CONTEXT.RawValue("q", 0), CONTEXT.Lock(), CONTEXT.Barrier(workers)
    return _count_updates(CONTEXT.Process, (gate, add, x, lock, updates), workers)


def _count_updates(kind, work: tuple, workers: int) -> int:
    crew = [kind(target=_start_together, args=work) for _ in range(workers)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()
    return work[2].value
