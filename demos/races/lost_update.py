"""Let two workers add to one number, and count the updates that get lost.

Run:      python demos/races/lost_update.py
Look for: threads lose nothing with x = x + 1 on Python 3.10 and later (without a
          GIL they do), and a good part of all updates with x = x + int(1). Processes
          that share memory have no common GIL and lose updates with both. A lock ends
          it.
Try:      --workers 4. More workers lose a larger part.
          --updates 1000. Threads are now done before they have to take turns: the race
          is still there, and the test no longer shows it.
"""

import sys

from parallel_by_hand.races.lost_update import (
    add_int_one,
    add_one,
    add_with_lock,
    count_in_processes,
    count_in_threads,
)
from sidebyside import run_program

UPDATES = {
    "x = x + 1": add_one,
    "x = x + int(1)": add_int_one,
    "with lock: x = x + int(1)": add_with_lock,
}


def main() -> None:
    from sidebyside import at_least, positive_int, program_parser  # not for children

    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--workers", type=at_least(1, 64), default=2, help="1 to 64, default 2")
    add("--updates", type=positive_int, default=400_000, help="of each worker")
    add("--rounds", type=at_least(1, 1000), default=4)
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
