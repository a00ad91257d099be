"""A small firm of processes and threads: who is whose child?

Run:      python demos/processes/small_firm.py (after you have drawn the tree)
Look for: a process is the child of the process that started it. A thread is nobody's
          child. What a thread starts is a child of the process that the thread is in.
Try:      write "forkserver" in place of "spawn" below (Linux, macOS), and run it again.
          Now the parent is a process that nobody in the firm has started: the fork
          server, which forks itself on request. The program stops with a KeyError.
          --seconds 30, and find the five processes in the system monitor.
"""

import multiprocessing
import os
from threading import Thread
from time import sleep

from sidebyside import run_program

spawn = multiprocessing.get_context("spawn")
SECONDS = "SMALL_FIRM_SECONDS"  # the variable of the environment that --seconds sets


def boss(register) -> None:
    work_together(
        spawn.Process(target=sign, args=(register, "secretary")),
        spawn.Process(target=foreman, args=(register,)),
    )


def foreman(register) -> None:
    sign(register, "foreman")
    work_together(
        spawn.Process(target=sign, args=(register, "apprentice")),
        Thread(target=helper, args=(register,)),
    )


def helper(register) -> None:
    sign(register, "helper")
    work_together(spawn.Process(target=sign, args=(register, "courier")))


def work_together(*workers) -> None:
    """Start them all, then wait for all."""
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def sign(register, name: str) -> None:
    """Sign the firm's register: name, process id, the parent's process id."""
    register.put((name, os.getpid(), os.getppid()))
    sleep(float(os.environ.get(SECONDS, 0)))


def open_the_firm() -> dict[str, str]:
    """Be the boss; then read in the register in which process each one belongs."""
    register = spawn.SimpleQueue()
    boss(register)
    signed = [register.get() for _ in range(5)]
    names = {pid: name for name, pid, _ in signed if name != "helper"}
    names[os.getpid()] = "boss"
    return {
        name: names[pid] if name == "helper" else names[parent]
        for name, pid, parent in signed
    }


def main() -> None:
    from sidebyside import positive_float, program_parser  # children need none

    parser = program_parser(__doc__)
    parser.add_argument(
        "--seconds", type=positive_float, default=0.01, help="each stays so long (0.01)"
    )
    os.environ[SECONDS] = str(parser.parse_args().seconds)  # children inherit it

    belongs_to = open_the_firm()
    for name in "secretary", "foreman", "apprentice", "courier":
        print(f"{name:<10} is a child of {belongs_to[name]}")
    print(f"{'helper':<10} is a thread in {belongs_to['helper']}")


if __name__ == "__main__":
    run_program(main)
