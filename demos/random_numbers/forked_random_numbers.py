"""Find out whether worker processes draw the same random numbers.

Run:      python demos/random_numbers/forked_random_numbers.py
Look for: EQUAL wherever the workers hold copies of one generator: copied by fork with
          the parent's memory, or packed and sent as an argument. Where a worker makes
          its generator itself, or Python seeds it anew, the numbers are different.
Try:      --preload torch numpy.random. The server that forks the workers now owns
          generators too, and hands out copies of them.
          --numbers. The first number of each worker, under each word.
"""

import argparse
import multiprocessing
import random
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from platform import python_version

import numpy as np  # NumPy 2 makes np.random when it is first named: not yet

from sidebyside import at_least, program_parser, run_program

UNTOUCHED = "np.random, first used by the worker"
USED = (
    "random, used by the parent",
    "np.random, used by the parent",
    "np Generator, sent by the parent",
    "np Generator, made by the worker",
    "torch, used by the parent",
)


def methods() -> list[str]:
    """The start methods that this system has."""
    there = multiprocessing.get_all_start_methods()
    return [method for method in ("fork", "forkserver", "spawn") if method in there]


def draw_after_fork(row: str, sent) -> float:
    """One random number from this process's generator for that row of the table."""
    match row.split(",")[0]:
        case "random":
            return random.random()
        case "torch":
            import torch  # not above: only some processes shall import it

            return torch.rand(()).item()
        case "np Generator":
            generator = sent if "sent" in row else np.random.default_rng()
            return generator.random()
    return np.random.random()


def send_numbers_of_child(rows: tuple[str, ...], sent, answer: Connection) -> None:
    """In a worker: one number for each row."""
    answer.send([draw_after_fork(row, sent) for row in rows])


def drawn_by_forked(
    workers: int, method: str, rows: tuple[str, ...], sent
) -> list[tuple]:
    """For each row, the first number of each of several new processes."""
    context = multiprocessing.get_context(method)
    numbers, crew = [], []
    for _ in range(workers):
        pipe, answer = context.Pipe(duplex=False)
        crew.append(
            (
                context.Process(
                    target=send_numbers_of_child, args=(rows, sent, answer)
                ),
                pipe,
            )
        )
        crew[-1][0].start()
        answer.close()  # now a worker that dies ends the waiting in recv
    for process, pipe in crew:
        numbers.append(pipe.recv())
        process.join()
    return list(zip(*numbers, strict=True))


def show_numbers_of_forked(
    rows: tuple[str, ...], sent, workers: int, numbers: bool
) -> None:
    """One line per row of the table, with a word per start method."""
    drawn = [drawn_by_forked(workers, method, rows, sent) for method in methods()]
    for row, *found in zip(rows, *drawn, strict=True):
        words = ("EQUAL" if len(set(some)) == 1 else "different" for some in found)
        print(f"{row:<36}", *(f"{word:<11}" for word in words), flush=True)
        if numbers:
            for line in zip(*found, strict=True):
                print(" " * 36, *(f"{number:<11.6f}" for number in line))


def module_before_fork(text: str) -> str:
    """An argparse type: a module that can be imported."""
    try:
        if find_spec(text) is not None:
            return text
    except (ImportError, ValueError):
        pass
    raise argparse.ArgumentTypeError(f"must be an installed module, not {text!r}")


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--workers", type=at_least(2, 16), default=2)
    parser.add_argument(
        "--preload", type=module_before_fork, nargs="+", default=[], metavar="MODULE",
        help="what the forkserver imports before it forks; default: nothing",
    )  # fmt: skip
    parser.add_argument("--numbers", action="store_true", help="show them, too")
    args = parser.parse_args()

    if "forkserver" in methods():
        multiprocessing.set_forkserver_preload(args.preload)
    versions = f"NumPy {version('numpy')}, torch {version('torch')}"
    print(f"Python {python_version()}, {versions}")
    print(f"The forkserver has imported: {', '.join(args.preload) or 'nothing'}.\n")
    title = f"{args.workers} workers started by"
    print(f"{title:<36}", *(f"{method:<11}" for method in methods()))
    show_numbers_of_forked((UNTOUCHED,), None, args.workers, args.numbers)
    sent = np.random.default_rng(5)  # only now does the parent touch np.random,
    for row in USED:  # and every other generator
        draw_after_fork(row, sent)
    show_numbers_of_forked(USED, sent, args.workers, args.numbers)


if __name__ == "__main__":
    run_program(main)
