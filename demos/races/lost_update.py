"""Let two workers add to one number, and count the updates that get lost.

Run:      python demos/races/lost_update.py
Look for: threads lose nothing with x = x + 1 on Python 3.10 and later (on 3.9 they
          did), and a good part of all updates with x = x + int(1). Processes that
          share memory have no common GIL and lose updates with both. A lock ends it.
Try:      --workers 4. More workers lose a larger part.
          --updates 1000. Threads are now done before they have to take turns: the race
          is still there, and the test no longer shows it.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Callable
from threading import Barrier, Lock, Thread
from types import SimpleNamespace

from sidebyside.programs import run_program

# "spawn" is the one start method that Linux, macOS and Windows have in common.
CONTEXT = multiprocessing.get_context("spawn")


def add_one(x, lock, updates: int) -> None:
    for _ in range(updates):
        x.value = x.value + 1


def add_int_one(x, lock, updates: int) -> None:
    for _ in range(updates):
        x.value = x.value + int(1)


def add_with_lock(x, lock, updates: int) -> None:
    for _ in range(updates):
        with lock:
            x.value = x.value + int(1)


def start_updates_together(gate, add: Callable, x, lock, updates: int) -> None:
    gate.wait()  # until all workers are there: some take longer to start
    add(x, lock, updates)


def count_in_threads(add: Callable, updates: int, workers: int = 2) -> int:
    """What x is after each of the threads has added 1 to it `updates` times."""
    x, lock, gate = SimpleNamespace(value=0), Lock(), Barrier(workers)
    return _count_updates(Thread, (gate, add, x, lock, updates), workers)


def count_in_processes(add: Callable, updates: int, workers: int = 2) -> int:
    """What x is when processes add to it: 8 bytes of memory that they share."""
    x, lock, gate = CONTEXT.RawValue("q", 0), CONTEXT.Lock(), CONTEXT.Barrier(workers)
    return _count_updates(CONTEXT.Process, (gate, add, x, lock, updates), workers)


def _count_updates(kind, work: tuple, workers: int) -> int:
    crew = [kind(target=start_updates_together, args=work) for _ in range(workers)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()
    return work[2].value


UPDATES = {
    "x = x + 1": add_one,
    "x = x + int(1)": add_int_one,
    "with lock: x = x + int(1)": add_with_lock,
}


def main() -> None:
    from sidebyside import at_least, positive_int  # here: children do not need it

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workers", type=at_least(1, 64), default=2, help="1 to 64, default 2"
    )
    parser.add_argument(
        "--updates", type=positive_int, default=400_000, help="of each worker"
    )
    parser.add_argument("--rounds", type=at_least(1, 1000), default=4)
    args = parser.parse_args()

    right = args.workers * args.updates
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, {'with a' if has_gil else 'no'} GIL")
    print(f"{args.workers} workers, each adds 1 to x, {args.updates:,} times")
    print(f"x should end as {right:,}; the smallest of {args.rounds} rounds:\n")
    for kind, count in ("threads", count_in_threads), ("processes", count_in_processes):
        for name, add in UPDATES.items():
            x = min(count(add, args.updates, args.workers) for _ in range(args.rounds))
            lost = f"lost {100 * (right - x) / right:4.1f} %"
            print(f"  {kind:<9}  {name:<25}  {x:>12,}  {lost}", flush=True)


if __name__ == "__main__":
    run_program(main)
