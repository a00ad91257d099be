"""Let two bank transfers wait for each other for ever, and look where they wait.

Run:      python demos/races/deadlock.py
Look for: one thread has the lock of account 1 and waits for that of account 2; the
          other has 2 and waits for 1. Nothing computes, nothing fails, nothing ends.
          The watchdog, in the main thread, prints the line on which each of them waits.
Try:      --in-order. Both threads take the lock of account 1 first, and both finish.
          --transfers 1. It may go well. How often must you test to be sure?

The exit status is 0 when the threads did as expected: hung, or with --in-order not.
"""

from threading import Thread

from parallel_by_hand.races.deadlock import (
    Account,
    all_end_without_deadlock,
    line_of_deadlock,
    transfer,
    transfer_in_order,
    transfer_until_deadlock,
)
from sidebyside import at_least, positive_float, program_parser, run_program


def main() -> int:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--in-order", action="store_true", help="take the locks in one order")
    add("--transfers", type=at_least(1, 1_000_000), default=500, help="of each thread")
    add(
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
