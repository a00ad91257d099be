"""Fork a child from a parent with two threads and much data, and see what it has.

Run:      python demos/processes/forked_child.py
Look for: two threads in the parent, one in the child: of all threads only the one that
          forked is there. At first the child has little memory of its own: it shares
          the parent's, until one of the two writes to it. To read an array writes
          nothing. To read a list does: each look at an object changes its count of
          references, which stands beside its value.
Try:      --numbers 3000000. Which line grows?
"""

import multiprocessing
import threading
from array import array

import psutil

from sidebyside import run_program


def megabytes_of_its_own() -> float:
    """MB that belong to this process alone: no other has them in its memory too."""
    return psutil.Process().memory_full_info().uss / 1e6


def read_all_in_child(connection, numbers: array, objects: list[float]) -> None:
    """Report the threads here, and the memory before and after reading each."""
    threads, own = threading.active_count(), [megabytes_of_its_own()]
    for data in numbers, objects:
        sum(data)
        own.append(megabytes_of_its_own())
    connection.send((threads, own))


def fork_and_read(count: int) -> tuple[int, int, list[float]]:
    """Threads in the parent, threads in the child, and the child's MB three times."""
    fork = multiprocessing.get_context("fork")
    numbers, objects = array("d", range(count)), [float(n) for n in range(count)]
    end = threading.Event()
    waiter = threading.Thread(target=end.wait, daemon=True)
    waiter.start()
    ours, theirs = fork.Pipe()
    child = fork.Process(target=read_all_in_child, args=(theirs, numbers, objects))
    child.start()
    theirs.close()  # else a child that dies would be waited for
    in_parent = threading.active_count()
    in_child, own = ours.recv()
    child.join()
    end.set()
    waiter.join()
    return in_parent, in_child, own


def main() -> None:
    from sidebyside import at_least, program_parser

    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--numbers", type=at_least(1, 10_000_000), default=1_000_000, help="in each")
    args = parser.parse_args()
    if "fork" not in multiprocessing.get_all_start_methods():
        print("This system has no fork: its children begin with nothing.")
        return
    in_parent, in_child, own = fork_and_read(args.numbers)
    print(f"threads in the parent: {in_parent}")
    print(f"threads in the child:  {in_child}")
    print(f"{args.numbers:,} numbers in an array, and as many in a list")
    moments = "at first", "after reading the array", "after reading the list"
    for moment, megabytes in zip(moments, own, strict=True):
        print(f"the child's own memory {moment:<24} {megabytes:6.1f} MB")


if __name__ == "__main__":
    run_program(main)
