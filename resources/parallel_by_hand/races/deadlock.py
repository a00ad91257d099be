"""Two bank transfers that wait for each other for ever, and where they wait."""

import linecache
import sys
from dataclasses import dataclass, field
from threading import Lock, Thread
from time import perf_counter, sleep


@dataclass
class Account:
    """An account with a lock of its own, of which two can be taken in a deadlock."""

    number: int
    balance: int = 1000
    lock: Lock = field(default_factory=Lock, repr=False)


def transfer(source: Account, target: Account, amount: int) -> None:
    """Move money; nobody who holds both locks ever sees it on its way."""
    with source.lock:
        sleep(0.001)  # look the other account up
        with target.lock:
            source.balance -= amount
            target.balance += amount


def transfer_in_order(source: Account, target: Account, amount: int) -> None:
    """The transfer without deadlock: the lock of the smaller number is taken first."""
    first, second = sorted([source, target], key=lambda account: account.number)
    with first.lock:
        sleep(0.001)
        with second.lock:
            source.balance -= amount
            target.balance += amount


def transfer_until_deadlock(
    way, source: Account, target: Account, times: int, done: list
) -> None:
    """What each of the two threads does until they wait for each other."""
    for _ in range(times):
        way(source, target, 1)
        done.append(1)


def line_of_deadlock(thread: Thread) -> str:
    """The line of this file on which the thread is right now."""
    frame = sys._current_frames()[thread.ident]  # pyright: ignore[reportArgumentType]  it runs
    while frame.f_code.co_filename != __file__:
        frame = frame.f_back
    code = linecache.getline(__file__, frame.f_lineno).strip()
    return f"line {frame.f_lineno}, in {frame.f_code.co_name}: {code}"


def all_end_without_deadlock(
    threads: list[Thread], done: list, patience: float
) -> bool:
    """True once all threads have ended, False when nothing gets done any more."""
    seen, since = 0, perf_counter()
    while any(thread.is_alive() for thread in threads):
        sleep(0.02)
        if len(done) > seen:
            seen, since = len(done), perf_counter()
        elif perf_counter() - since > patience:
            return False
    return True
