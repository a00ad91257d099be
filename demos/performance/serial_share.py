"""Run a program with a known serial part, and find that part from its times alone.

Run:      python demos/performance/serial_share.py --serial 20
Look for: the speedup stays behind the number of workers, and the fit finds the serial
          share again, from nothing but the times. It finds a bit more than was put
          in: waiting for each other is serial too.
Try:      --serial 50. What do 8 workers gain, and what would 1000?
          --compute: the workers compute instead of sleeping, at most one per core.
          --grow: the parallel part grows with the workers, and the time stays.
"""

from statistics import median
from time import sleep

from parallel_by_hand.performance.serial_share import (
    compute,
    fit_serial_share,
    time_serial_and_parallel,
    worker_counts_for_share,
)
from parallel_by_hand.performance.speedup_laws import amdahl
from sidebyside import at_least, machine, program_parser, run_program

ROUNDS = 5


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--serial", type=at_least(0, 100), default=20, help="per cent of the work")
    add("--compute", action="store_true", help="instead of sleeping")
    add("--grow", action="store_true", help="the parallel part, with the workers")
    args = parser.parse_args()

    share = args.serial / 100
    most = min(8, machine().usable_cores) if args.compute else 8
    kind = "computing" if args.compute else "sleeping"
    about = f"{args.serial} parts of 100 are serial, {kind}, {ROUNDS} rounds"
    print(about, flush=True)
    work, counts = compute if args.compute else sleep, worker_counts_for_share(most)
    program = work, 0.25 * share, 0.25 * (1 - share), counts
    seconds = time_serial_and_parallel(*program, ROUNDS, args.grow)

    law = "Gustafson" if args.grow else "Amdahl"
    print(f"{'workers':>7} {'time':>10} {'speedup':>9} {law:>9}")
    first = median(seconds[1])
    for workers, times in seconds.items():
        done = share + (1 - share) * workers if args.grow else 1  # work, in T(1)
        time, ideal = median(times), done if args.grow else amdahl(share, workers)
        print(f"{workers:>7} {time:8.3f} s {done * first / time:7.2f} × {ideal:7.2f} ×")
    if args.grow:
        print("(speedup: the grown work, had one worker done it, over the time)")
    elif len(counts) > 1:
        print(fit_serial_share(seconds))
    else:
        print("one number of workers: every serial share explains the same one time")


if __name__ == "__main__":
    run_program(main)
