"""Time the same work done one by one, in threads, and in processes.

Run:      python demos/gil/threads_vs_processes.py --workers 2
Look for: threads are no faster than one by one, because only one thread at a time may
          run Python code (the GIL); processes are, because each has its own GIL.
          On a free-threaded Python, such as python3.14t, threads are faster too.
Try:      --steps 1_000. Now starting the workers costs more than they save.
          taskset -c 0 python demos/gil/threads_vs_processes.py (Linux) leaves one core:
          now the processes take turns as well.
"""

import multiprocessing
import sys
from statistics import median
from threading import Thread
from time import perf_counter

from sidebyside import at_least, positive_int, program_parser, run_program

# "spawn" is the one start method that Linux, macOS and Windows have in common.
Process = multiprocessing.get_context("spawn").Process

ROUNDS = 3


def busy(steps: int) -> None:
    """Keep one core busy in pure Python: nothing here waits or releases the GIL."""
    total = 0
    for step in range(steps):
        total += step * step


def time_without_threads(workers: int, steps: int) -> float:
    """Seconds to do the work of all, one after the other, in this thread."""
    start = perf_counter()
    for _ in range(workers):
        busy(steps)
    return perf_counter() - start


def time_threads_or_processes(kind: type, workers: int, steps: int) -> float:
    """Seconds for `workers` of this kind to be busy at the same time."""
    crew = [kind(target=busy, args=(steps,)) for _ in range(workers)]
    start = perf_counter()
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()
    return perf_counter() - start


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--workers", type=at_least(1, 64), default=2)
    add("--steps", type=positive_int, default=5_000_000, help="of work per worker")
    args = parser.parse_args()

    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, {'with a' if has_gil else 'no'} GIL")
    print(f"{args.workers} workers x {args.steps:,} steps, {ROUNDS} rounds", flush=True)

    rounds: dict[str, list[float]] = {"one by one": [], "threads": [], "processes": []}
    for _ in range(ROUNDS):  # in turn: what disturbs the machine disturbs all three
        rounds["one by one"].append(time_without_threads(args.workers, args.steps))
        rounds["threads"].append(
            time_threads_or_processes(Thread, args.workers, args.steps)
        )
        rounds["processes"].append(
            time_threads_or_processes(Process, args.workers, args.steps)
        )

    first = median(rounds["one by one"])
    for way, seconds in rounds.items():
        time = median(seconds)
        print(f"  {way:<11} {1000 * time:8.2f} ms  speed-up {first / time:5.2f} ×")


if __name__ == "__main__":
    run_program(main)
