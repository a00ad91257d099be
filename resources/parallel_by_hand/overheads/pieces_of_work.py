"""Pieces of work, and a crew of processes that shares them out.

A kind of work is a function of one whole number, the number of the piece. This module
imports next to nothing, since every new process may have to import it again.
"""

import multiprocessing
import random
from collections.abc import Callable, Sequence
from threading import Thread
from time import perf_counter, process_time, sleep

from sidebyside import span

METHODS = multiprocessing.get_all_start_methods()
CONTEXT = (
    multiprocessing.get_context("forkserver")
    if "forkserver" in METHODS
    else multiprocessing.get_context("spawn")
)


def draw_piece(piece: int) -> float:
    """A random number: next to no work."""
    return random.Random(piece).random()


def busy_piece(piece: int, steps: int = 150_000) -> int:
    """Keep a core busy for some milliseconds, in pure Python."""
    with span("busy"):
        total = 0
        for step in range(steps):
            total += step * step
    return total


def nap_piece(piece: int) -> None:
    """Wait for 10 ms. It needs no core, so its schedules are those of any machine."""
    with span("nap"):
        sleep(0.01)


def nap_for(seconds: float) -> None:
    """A piece of known length: wait for this long."""
    with span("nap"):
        sleep(seconds)


BUILT_IN_PIECES = {"busy": busy_piece, "nap": nap_piece, "draw": draw_piece}


def do_pieces(function: Callable[[int], object], pieces: Sequence[int]) -> None:
    """A worker's share of the pieces, one after the other."""
    for piece in pieces:
        function(piece)


class ThreadWithExitcode(Thread):
    """A thread whose `exitcode` is that of a process: 0 if nothing was raised."""

    exitcode = 1

    def run(self) -> None:
        super().run()
        self.exitcode = 0


def share_out_pieces(
    function: Callable[[int], object],
    pieces: int,
    workers: int,
    kind: type = CONTEXT.Process,
) -> float:
    """Seconds for new processes, or threads, to do all pieces, a share each."""
    begin = perf_counter()
    crew = [
        kind(target=do_pieces, args=(function, range(worker, pieces, workers)))
        for worker in range(workers)
    ]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()
    if any(worker.exitcode for worker in crew):
        raise RuntimeError("a worker failed; what it said stands above")
    return perf_counter() - begin


def cpu_share_of_piece(function: Callable[[int], object], pieces: int = 8) -> float:
    """CPU time over wall time of a piece, done here: about 1 if it is CPU-bound.

    Other programs can only make it smaller, so the largest of some pieces counts.
    """
    shares = []
    for piece in range(pieces):
        wall, cpu = perf_counter(), process_time()
        function(piece)
        wall, cpu = perf_counter() - wall, process_time() - cpu
        shares.append(min(1.0, cpu / wall))
    return max(shares)
