"""A thread changes a variable: the whole program sees it.

Run:      python demos/processes/thread_memory.py
Look for: one process id, one address, one value. The thread did not get a copy of the
          box: it has the box.
Try:      compare with process_memory.py, line by line.
          --hold 30: the system monitor shows one line that says python, not two. Its
          column for threads (htop: H; Task Manager: add the column) says 2.
"""

import os
import time
from threading import Thread, get_native_id

from sidebyside import run_program

box = [1]


def box_in_thread() -> str:
    return (
        f"pid {os.getpid()}, thread id {get_native_id()}, "
        f"has {box[0]:4} in the box at address {id(box):#x}"
    )


def thread_adds_100(lines: list[str], seconds: int) -> None:
    """What the thread does: change the `box` that everyone shares."""
    lines.append(box_in_thread())
    box[0] += 100
    lines.append(box_in_thread())
    time.sleep(seconds)


def main() -> None:
    from sidebyside import at_least, program_parser

    parser = program_parser(__doc__)
    parser.add_argument(
        "--hold", type=at_least(0, 86_400), default=0, metavar="SECONDS",
        help="keep the thread alive so long (default: 0)",
    )  # fmt: skip
    args = parser.parse_args()

    box[0] = 2
    print(f"main thread             {box_in_thread()}", flush=True)
    lines: list[str] = []  # no pipe is needed to get them back
    thread = Thread(target=thread_adds_100, args=(lines, args.hold))
    thread.start()
    thread.join()
    print(f"thread at first         {lines[0]}")
    print(f"thread adds 100         {lines[1]}")
    print(f"main thread after that  {box_in_thread()}")
    print(f"\n{box[0]} in the main thread: it sees the change at once")


if __name__ == "__main__":
    run_program(main)
