"""Start processes, and see what their parent learns of how they end.

Run:      python demos/processes/create_process.py
Look for: the process exists only after start(): then it has an id. All four do their
          work at the same time. What a child returns or raises does not reach the
          parent, only its exit code does: 0 when all went well, 1 after an exception,
          minus the number of the signal when it was ended from outside.
Try:      --seconds 30, and look at the system monitor: six lines that say python, of
          which one is the parent, and one its resource tracker (on Windows there is
          none). End one of the four children there: its exit code changes.
"""

import multiprocessing
import os
import sys
import time

from sidebyside import run_program

spawn = multiprocessing.get_context("spawn")


def process_that_works_well(seconds: float) -> str:
    time.sleep(seconds)
    return "a result that nobody receives"


def process_that_raises(seconds: float) -> None:
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (its traceback is long)
    time.sleep(seconds)
    raise ValueError("an exception that nobody catches")


def process_that_exits_with_3(seconds: float) -> None:
    time.sleep(seconds)
    sys.exit(3)


def process_that_never_ends(seconds: float) -> None:
    parent = multiprocessing.parent_process()
    while parent.is_alive():
        time.sleep(0.1)


CHILDREN = [
    process_that_works_well,
    process_that_raises,
    process_that_exits_with_3,
    process_that_never_ends,
]


def main() -> None:
    from sidebyside import positive_float, program_parser  # children need none

    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--seconds", type=positive_float, default=0.5, help="of work (default: 0.5)")
    args = parser.parse_args()

    print(f"the parent has pid {os.getpid()}\n")
    children = [spawn.Process(target=f, args=(args.seconds,)) for f in CHILDREN]
    print(f"before start():  {[child.pid for child in children]}")
    for child in children:
        child.start()
    print(f"after start():   {', '.join(f'pid {child.pid}' for child in children)}")
    print(f"exit codes now:  {[child.exitcode for child in children]}\n", flush=True)
    *others, endless = children
    for child in others:
        child.join()  # wait for its end
    endless.terminate()  # it would never end by itself
    endless.join()

    print(f"{'what the child does':<26} exit code")
    for function, child in zip(CHILDREN, children, strict=True):
        print(f"{function.__name__.replace('_', ' '):<26} {child.exitcode:9}")


if __name__ == "__main__":
    run_program(main)
