"""Let two bank transfers wait for each other for ever, and look where they wait.

Run:      python demos/races/deadlock.py
Look for: one thread has the lock of account 1 and waits for that of account 2; the
          other has 2 and waits for 1. Nothing computes, nothing fails, nothing ends.
          The watchdog, in the main thread, prints the line on which each of them waits.
Try:      --in-order. Both threads take the lock of account 1 first, and both finish.
          --transfers 1. It may go well. How often must you test to be sure?

The exit status is 0 when the threads did as expected: hung, or with --in-order not.
"""

import argparse
import linecache
import sys
from dataclasses import dataclass, field
from threading import Lock, Thread
from time import perf_counter, sleep

from sidebyside.programs import run_program


@dataclass
class Account:
    """An account with a lock of its own: take it before you touch the balance."""

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
    """The same, but the lock of the smaller number is taken first, whoever pays."""
    first, second = sorted([source, target], key=lambda account: account.number)
    with first.lock:
        sleep(0.001)
        with second.lock:
            source.balance -= amount
            target.balance += amount


def transfer_until_deadlock(
    way, source: Account, target: Account, times: int, done: list
) -> None:
    for _ in range(times):
        way(source, target, 1)
        done.append(1)


def line_of_deadlock(thread: Thread) -> str:
    """The line of this file on which the thread is right now."""
    frame = sys._current_frames()[thread.ident]
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


def main() -> int:
    from sidebyside import at_least, positive_float

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--in-order", action="store_true", help="take the locks in one order"
    )
    parser.add_argument(
        "--transfers", type=at_least(1, 1_000_000), default=500, help="of each thread"
    )
    parser.add_argument(
        "--patience", type=positive_float, default=1.0,
        help="seconds without a transfer after which the watchdog speaks up",
    )  # fmt: skip
    args = parser.parse_args()

    way = transfer_in_order if args.in_order else transfer
    one, two, done = Account(1), Account(2), []
    work = [(way, *pair, args.transfers, done) for pair in ((one, two), (two, one))]
    # As daemons, for a daemon does not keep the program from ending.
    threads = [
        Thread(target=transfer_until_deadlock, args=each, daemon=True) for each in work
    ]
    print(f"{args.transfers} transfers from 1 to 2, as many from 2 to 1", flush=True)
    for thread in threads:
        thread.start()
    if all_end_without_deadlock(threads, done, args.patience):
        money = one.balance + two.balance
        print(f"all {len(done)} are done, and no money is missing: {money}")
        return 0 if args.in_order else 1
    print(f"\nnothing has moved for {args.patience:g} s; this is where they wait:")
    for thread, (has, wants) in zip(threads, ((1, 2), (2, 1)), strict=True):
        print(f"  {has} to {wants}: has the lock of {has}, wants the lock of {wants}")
        print(f"          {line_of_deadlock(thread)}")
    print("\nThis would never end. The watchdog ends it.")
    return 1 if args.in_order else 0


if __name__ == "__main__":
    run_program(main)
