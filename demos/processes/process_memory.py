"""A child process changes a variable: the parent's stays as it was.

Run:      python demos/processes/process_memory.py
Look for: with fork, the child finds the parent's value at the parent's address. After
          its change, two different numbers stand at one address: an address counts
          within a process only, and each process has memory of its own.
Try:      --start-method spawn. Now the child finds 1, as this file says: it has read
          the file again and knows nothing of what the parent has done since.
          --hold 30, and compare the memory of the two in the system monitor.
"""

import multiprocessing
import os
import time
from multiprocessing.connection import Connection

from sidebyside import run_program

box = [1]


def box_in_process() -> str:
    return f"pid {os.getpid()} has {box[0]:4} in the box at address {id(box):#x}"


def child_adds_100(connection: Connection, seconds: int) -> None:
    """What the child does: change its own `box`, and report before and after."""
    before = box_in_process()
    box[0] += 100
    connection.send((before, box_in_process()))
    time.sleep(seconds)


def main() -> None:
    from sidebyside import at_least, program_parser  # here: the child does not need it

    methods = multiprocessing.get_all_start_methods()
    default = "fork" if "fork" in methods else methods[0]
    parser = program_parser(__doc__)
    parser.add_argument(
        "--start-method", choices=methods, default=default,
        help=f"how the child comes into being (default: {default})",
    )  # fmt: skip
    parser.add_argument(
        "--hold", type=at_least(0, 86_400), default=0, metavar="SECONDS",
        help="keep both processes alive so long (default: 0)",
    )  # fmt: skip
    args = parser.parse_args()
    context = multiprocessing.get_context(args.start_method)

    box[0] = 2
    print(f"parent             {box_in_process()}", flush=True)
    ours, theirs = context.Pipe()
    child = context.Process(target=child_adds_100, args=(theirs, args.hold))
    child.start()
    before, after = ours.recv()
    print(f"child at first     {before}")
    print(f"child adds 100     {after}")
    print(f"parent after that  {box_in_process()}", flush=True)
    child.join()
    print(f"\n{box[0]} in the parent: it sees nothing of the change")


if __name__ == "__main__":
    run_program(main)
