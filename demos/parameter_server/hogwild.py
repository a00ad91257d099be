"""Hogwild: processes change the same parameters in shared memory, without a lock.

Run:      python demos/parameter_server/hogwild.py --workers 2
Look for: x[i].add_(1) loses next to nothing, for it reads and writes a number at once.
          With x.copy_(x + 1) another process may write between the reading and the
          writing, and its update is lost: often where every update touches all
          numbers (dense), hardly ever where it touches 10 of 10,000 (sparse). With a
          lock nothing is lost, but it costs time.
Try:      --size 100, then --size 100000: how does the share of lost updates change?
"""

import multiprocessing
from time import perf_counter
from typing import TYPE_CHECKING

from sidebyside import at_least, program_parser, run_program

if TYPE_CHECKING:  # not when it runs: only the processes that change numbers need torch
    from torch import Tensor

CONTEXT = multiprocessing.get_context("spawn")
TOUCHED = 10  # numbers that a sparse update changes


def add_in_place(x: "Tensor", places: None) -> None:
    """One call reads, adds and writes, number by number."""
    x.add_(1)


def read_then_write(x: "Tensor", places: "Tensor | None") -> None:
    """Read all, add, write all: what an optimiser does that computes a new tensor."""
    if places is None:
        x.copy_(x + 1)
    else:
        x[places] = x[places] + 1


WAYS = {  # name: (change, is it sparse, is there a lock)
    "dense, add_": (add_in_place, False, False),
    "dense, copy_": (read_then_write, False, False),
    "dense, copy_, lock": (read_then_write, False, True),
    "sparse, copy_": (read_then_write, True, False),
    "sparse, copy_, lock": (read_then_write, True, True),
}


def hog_of_hogwild(
    worker: int, memory, times, lock, gate, size: int, updates: int
) -> None:
    """Runs in each process: all ways in turn, each with its own part of the memory."""
    import torch

    torch.set_num_threads(1)
    rows = torch.frombuffer(memory, dtype=torch.float32).view(len(WAYS), size)
    dice = torch.Generator().manual_seed(worker)
    for row, (x, (change, sparse, locked)) in enumerate(
        zip(rows, WAYS.values(), strict=True)
    ):
        chosen = [None] * updates
        if sparse:  # no place twice in one update
            chosen = [
                torch.randperm(size, generator=dice)[:TOUCHED] for _ in range(updates)
            ]
        gate.wait()
        began = perf_counter()
        for places in chosen:
            if locked:
                with lock:
                    change(x, places)
            else:
                change(x, places)
        times[row * gate.parties + worker] = perf_counter() - began


def count_lost_by_hogs(
    workers: int, size: int, updates: int
) -> dict[str, tuple[float, float]]:
    """For each way: the share of updates that are lost, and the slowest's seconds."""
    memory = CONTEXT.RawArray("f", len(WAYS) * size)
    times = CONTEXT.RawArray("d", len(WAYS) * workers)
    lock, gate = CONTEXT.Lock(), CONTEXT.Barrier(workers)
    shared = memory, times, lock, gate, size, updates
    crew = [
        CONTEXT.Process(target=hog_of_hogwild, args=(w, *shared))
        for w in range(workers)
    ]
    for process in crew:
        process.start()
    for process in crew:
        process.join()
    found = {}
    for row, (name, (_, sparse, _)) in enumerate(WAYS.items()):
        made = workers * updates * (min(TOUCHED, size) if sparse else size)
        kept = sum(memory[row * size : (row + 1) * size])
        slowest = max(times[row * workers : (row + 1) * workers])
        found[name] = 1 - kept / made, slowest
    return found


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--workers", type=at_least(1, 8), default=2)
    parser.add_argument("--size", type=at_least(1, 100_000), default=10_000)
    parser.add_argument("--updates", type=at_least(1, 20_000), default=2_000)
    args = parser.parse_args()
    print(f"{args.workers} processes, {args.updates:,} updates each,", end=" ")
    print(f"{args.size:,} numbers")
    for name, (lost, seconds) in count_lost_by_hogs(**vars(args)).items():
        print(f"{name:<20} lost {100 * lost:6.2f} %   {seconds:.3f} s")


if __name__ == "__main__":
    run_program(main)
