"""Start threads, and see that they are all the same process.

Run:      python demos/processes/create_threads.py --threads 4
Look for: each thread has an id of its own, and all have the same process id. No child
          process appears. After an exception in one thread the others go on, and join()
          says nothing: a thread has no exit code, and nobody can end it from outside.
Try:      --threads 1000.
          --hold 30: the system monitor shows one line that says python. Its column for
          threads (htop: H; Task Manager: add the column) says how many there are.
"""

import os
import threading
import time
from threading import Event, Thread, get_native_id

from sidebyside import run_program

SHOWN = 8  # threads that are listed


def thread_notes_ids_and_waits(
    number: int, ids: dict[int, tuple[int, int]], go_home: Event
) -> None:
    """Note down who we are, wait for the sign, and let number 1 fail."""
    ids[number] = os.getpid(), get_native_id()
    go_home.wait()
    if number == 1:
        raise ValueError("an exception that nobody catches")


def main() -> None:
    import psutil

    from sidebyside import at_least, program_parser

    parser = program_parser(__doc__)
    parser.add_argument("--threads", type=at_least(1, at_most=10_000), default=4)
    parser.add_argument(
        "--hold", type=at_least(0, 86_400), default=0, metavar="SECONDS",
        help="keep the threads alive so long (default: 0)",
    )  # fmt: skip
    args = parser.parse_args()
    ended_badly: list[str] = []  # main prints them: a reader may have gone by then
    threading.excepthook = lambda failed: ended_badly.append(
        f"thread 1 ended with {failed.exc_type.__name__}: {failed.exc_value}"
    )

    this = psutil.Process()
    print(f"pid {os.getpid()} has {this.num_threads()} thread", flush=True)
    ids: dict[int, tuple[int, int]] = {}
    go_home = Event()
    threads = []
    try:
        for number in range(1, args.threads + 1):
            threads.append(
                Thread(target=thread_notes_ids_and_waits, args=(number, ids, go_home))
            )
            threads[-1].start()
    except RuntimeError as error:  # the system allows no more
        threads.pop()
        print(f"after {len(threads)} threads: {error}")
    while len(ids) < len(threads):
        time.sleep(0.01)

    count, children = this.num_threads(), len(this.children())
    print(f"pid {os.getpid()} has {count} threads and {children} children")
    for number, (process, thread) in sorted(ids.items())[:SHOWN]:
        print(f"  thread {number} is in pid {process} and has thread id {thread}")
    if len(ids) > SHOWN:
        print(f"  ... and {len(ids) - SHOWN} more")
    print(flush=True)
    time.sleep(args.hold)

    go_home.set()
    for thread in threads:
        thread.join()
    print(*ended_badly, sep="\n")
    left = threading.active_count()
    print(f"all have ended; pid {os.getpid()} goes on with {left} thread")


if __name__ == "__main__":
    run_program(main)
