"""Measure what it costs to create a thread, and a process by each start method.

Run:      python demos/processes/creation_cost.py
Look for: thousands of threads are created while spawn creates a handful of processes.
          What is started with fork knows the parent's variables and open files, and can
          be given anything. The others are new: they know what the file says and what
          is pickled and sent.
Try:      --seconds 20, for thousands of processes too.
          --megabytes 1000: the parent is large now. Which start method becomes slower?
          --hold 10: for so long workers of each kind wait for you to look at the system
          monitor: 200 threads, then 4 processes by each start method.
          --save costs.json: all the times, to draw them.

One worker after the other is started, does nothing, ends, and only then comes the next.
Measured in a program that has imported little, with no other process of its own: start
methods that copy or repeat what the parent has done look better here than in large
programs. The start methods are those that this system has.
"""

import multiprocessing
import os
import sys
import threading
from time import perf_counter, sleep

from sidebyside import run_program

# More is imported in the functions below: some workers read this file again, and what
# it imports here counts as part of their creation.

number = 1
TOGETHER = {"thread": 200}  # waiting workers whose memory is measured; 4 processes


def do_nothing_once_created(*given) -> None:
    """All that a worker does."""


def look_around_once_created(connection, handle: int, identity: tuple) -> None:
    """Report the value of `number` and whether the parent's file is open; then wait."""
    try:
        is_open = identity == identity_of_file(handle)
    except OSError:
        is_open = False
    connection.send((number, "open" if is_open else "not open"))
    connection.recv()


def identity_of_file(handle: int) -> tuple:
    found = os.fstat(handle)
    return found.st_dev, found.st_ino


def create_one_by_one(kind, most: int, seconds: float) -> list[float]:
    """Seconds from the beginning to the end of worker 1, of worker 2, ..."""
    ended, began = [], perf_counter()
    while len(ended) < most and (not ended or ended[-1] < seconds):
        worker = kind(target=do_nothing_once_created)
        worker.start()
        worker.join()
        ended.append(perf_counter() - began)
    return ended


def can_be_given_at_creation(kind, thing: object) -> str:
    try:
        worker = kind(target=do_nothing_once_created, args=(thing,))
        worker.start()
    except Exception:  # TypeError, AttributeError or PicklingError, by version
        return "no"
    worker.join()
    return "yes"


def inspect_created(name: str, kind, file, hold: int) -> dict:
    """Start some workers that wait, and find out what they have and what they know."""
    from statistics import median

    import psutil

    before = created_megabytes(psutil.Process())
    pipes = [multiprocessing.Pipe() for _ in range(TOGETHER.get(name, 4))]
    known = file.fileno(), identity_of_file(file.fileno())
    crew = [
        kind(target=look_around_once_created, args=(theirs, *known))
        for _, theirs in pipes
    ]
    for worker in crew:
        worker.start()
    reports = [ours.recv() for ours, _ in pipes]
    if name == "thread":
        megabytes = (created_megabytes(psutil.Process()) - before) / len(crew)
    else:
        megabytes = median(created_megabytes(psutil.Process(w.pid)) for w in crew)
    if hold:
        print(f"{len(crew)} workers wait for {hold} s: {name}", flush=True)
        sleep(hold)
    for (ours, theirs), worker in zip(pipes, crew, strict=True):
        ours.send("end")
        worker.join()
        ours.close()
        theirs.close()
    return {"MB": megabytes, "number": reports[0][0], "file": reports[0][1]}


def created_megabytes(process) -> float:
    """MB that belong to this process alone."""
    return process.memory_full_info().uss / 1e6


def measure_creation(name: str, kind, file, args) -> dict:
    from statistics import median

    ended = create_one_by_one(kind, args.most, args.seconds)
    each = [b - a for a, b in zip([0, *ended], ended, strict=False)]
    found = {"ended": ended, "first": each[0], "later": median(each[1:] or each)}
    found |= inspect_created(name, kind, file, args.hold)
    things = {"a list": [1, 2], "a lambda": lambda: 0, "an open file": file}
    return found | {
        label: can_be_given_at_creation(kind, thing) for label, thing in things.items()
    }


def print_creation_costs(found: dict[str, dict]) -> None:
    def row(label: str, text) -> None:
        print(f"{label:<27}" + "".join(f"{text(f):>13}" for f in found.values()))

    print(" " * 27 + "".join(f"{name:>13}" for name in found))
    print("what it costs")
    row("  the first one", lambda f: f"{f['first'] * 1e3:.2f} ms")
    row("  each later one, median", lambda f: f"{f['later'] * 1e3:.2f} ms")
    row("  memory of its own", lambda f: f"{f['MB']:.2f} MB")
    row("  created", lambda f: f"{len(f['ended']):,}")
    row("  in", lambda f: f"{f['ended'][-1]:.2f} s")
    print("what it knows")
    row("  the value of `number`", lambda f: f["number"])
    row("  the parent's open file", lambda f: f["file"])
    print("what it can be given")
    for label in "a list", "a lambda", "an open file":
        row(f"  {label}", lambda f, label=label: f[label])
    print(f"(`number` is 1 in the file; the parent has set it to {number} before)")


def main() -> None:
    import json
    import tempfile
    from multiprocessing import resource_tracker

    import psutil

    from sidebyside import at_least, output_file, positive_float, program_parser

    free = psutil.virtual_memory().available // 2_000_000  # workers by fork need some
    parser = program_parser(__doc__)
    add = parser.add_argument
    add(
        "--most",
        type=at_least(2, 1_000_000),
        default=4000,
        help="workers of a kind (4000)",
    )
    add("--seconds", type=positive_float, default=1.0, help="at most for a kind (1.0)")
    add(
        "--megabytes",
        type=at_least(0, free),
        default=0,
        help="the parent has in memory (0)",
    )
    add("--hold", type=at_least(0, 86_400), default=0, metavar="SECONDS")
    add("--save", type=output_file, metavar="FILE")
    args = parser.parse_args()

    global number
    number = 100
    ballast = bytearray(args.megabytes * 1_000_000)
    ballast[::4096] = b"x" * len(ballast[::4096])  # so that it is really there
    resource_tracker.ensure_running()  # else the first start method that needs it pays

    methods = multiprocessing.get_all_start_methods()
    kinds = {"thread": threading.Thread}
    kinds |= {m: multiprocessing.get_context(m).Process for m in sorted(methods)}
    default = multiprocessing.get_context().get_start_method()
    version = sys.version.split()[0]
    print(f"Python {version} on {sys.platform}; its default is {default}")
    found = {}
    with tempfile.TemporaryFile() as file:
        for name, kind in kinds.items():
            print(f"measuring: {name}", flush=True)
            found[name] = measure_creation(name, kind, file, args)
    print()
    print_creation_costs(found)
    if args.save:
        args.save.write_text(json.dumps(found))
        print(f"written: {args.save.name}")


if __name__ == "__main__":
    run_program(main)
