"""Multiply two matrices block by block in processes, and let the library do it.

Run:      python demos/practice/block_matmul.py --size 1000
Look for: with shared memory next to nothing is sent, and the blocks are done sooner
          than with pickled blocks. On a free machine the library is faster still,
          without any process: its threads share one memory, and it computes with
          blocks as well, so small that they stay in the cache of a core. "here" is the
          CPU time of this process: above 100 % it has used more than one core.
Try:      --cuts 8. 64 small blocks: more is sent, for the same product.
"""

import argparse
import math
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from statistics import median
from time import perf_counter, process_time

import numpy as np

from sidebyside import at_least, machine
from sidebyside.programs import end_with_parent, run_program

ROUNDS = 3
# "spawn" is the one start method that Linux, macOS and Windows have in common.
spawn = get_context("spawn")
shared: dict[str, np.ndarray] = {}  # in a worker: the three matrices


def strips(size: int, cuts: int) -> list[slice]:
    """The numbers 0 to size - 1, cut into `cuts` ranges of nearly equal length."""
    ends = [size * cut // cuts for cut in range(cuts + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def blocks(size: int, cuts: int) -> list[tuple[slice, slice]]:
    """The rows and columns of each block of the product: cuts x cuts of them."""
    return [(r, c) for r in strips(size, cuts) for c in strips(size, cuts)]


def multiply_sent(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Runs in a worker: everything comes and goes through a pipe."""
    return rows @ columns


def multiply_shared(rows: slice, columns: slice) -> None:
    """Runs in a worker: only the place of the block is sent, nothing comes back."""
    product = shared["C"][rows, columns]
    product[:] = shared["A"][rows] @ shared["B"][:, columns]


def as_matrices_of_blocks(size: int, memory: dict) -> dict[str, np.ndarray]:
    """See each piece of memory as a square matrix, without a copy."""
    return {name: np.frombuffer(m).reshape(size, size) for name, m in memory.items()}


def attach_block_matrices(size: int, memory: dict) -> None:
    """Runs once in each worker, as it starts: a RawArray cannot be sent later."""
    end_with_parent()
    shared.update(as_matrices_of_blocks(size, memory))


@contextmanager
def one_thread_for_each_block() -> Iterator[None]:
    """Workers started inside let the library compute with one thread."""
    names = "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"
    before = {name: os.environ.get(name) for name in names}
    os.environ |= dict.fromkeys(names, "1")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


class BlockProduct:
    """A, B and C in shared memory; C = A B, in `cuts` x `cuts` blocks.

    `with product:` starts workers that see all three, and ends them.
    """

    def __init__(self, size: int, cuts: int, workers: int):
        dice = np.random.default_rng(0)
        self.places = blocks(size, cuts)
        memory = {name: spawn.RawArray("d", size * size) for name in "ABC"}
        self.workers, self.attached = workers, (size, memory)
        self.A, self.B, self.C = as_matrices_of_blocks(size, memory).values()
        for matrix in self.A, self.B:
            matrix[:] = dice.standard_normal((size, size))

    def __enter__(self) -> "BlockProduct":
        with one_thread_for_each_block():
            self.pool = spawn.Pool(self.workers, attach_block_matrices, self.attached)
            self.pool.map(abs, range(self.workers))  # they have started
        return self

    def __exit__(self, *_) -> None:
        self.pool.terminate()
        self.pool.join()

    def sent(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(self.A[rows], self.B[:, columns]) for rows, columns in self.places]

    def by_sending(self) -> np.ndarray:
        parts = self.pool.starmap(multiply_sent, self.sent(), chunksize=1)
        product = np.empty_like(self.C)
        for place, part in zip(self.places, parts, strict=True):
            product[place] = part
        return product

    def by_sharing(self) -> np.ndarray:
        self.pool.starmap(multiply_shared, self.places, chunksize=1)
        return self.C

    def by_library(self) -> np.ndarray:
        return self.A @ self.B

    def bytes_moved(self) -> dict[str, int]:
        """Bytes through the pipes: the pickled arguments, and what comes back."""
        there = sum(len(pickle.dumps(pair)) for pair in self.sent())
        back = sum(len(pickle.dumps(self.C[place])) for place in self.places)
        places = sum(len(pickle.dumps(place)) for place in self.places)
        nothing = len(pickle.dumps(None)) * len(self.places)
        return {
            "blocks sent": there + back,
            "blocks shared": places + nothing,
            "library": 0,
        }


def time_block_product(way) -> tuple[float, float]:
    """Seconds on the wall, and the share of them that this process used a core."""
    start, cpu = perf_counter(), process_time()
    way()
    wall = perf_counter() - start
    return wall, (process_time() - cpu) / wall


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cores = machine().usable_cores
    parser.add_argument("--size", type=at_least(2, 5000), default=1000)
    parser.add_argument("--cuts", type=at_least(1, 16), default=2)
    parser.add_argument("--workers", type=at_least(1, 64), default=min(cores, 8))
    args = parser.parse_args()
    if args.cuts > args.size:
        parser.error(f"argument --cuts: must be at most the size, {args.size}")

    work = BlockProduct(args.size, args.cuts, args.workers)
    ways = {
        "blocks sent": work.by_sending,
        "blocks shared": work.by_sharing,
        "library": work.by_library,
    }
    exact, moved = work.by_library(), work.bytes_moved()
    print(
        f"{args.size} x {args.size}, {len(work.places)} blocks, workers: {args.workers}"
    )
    with work:
        rounds = [
            {n: time_block_product(way) for n, way in ways.items()}
            for _ in range(ROUNDS)
        ]
        products = {name: np.copy(way()) for name, way in ways.items()}
    print(f"{'way':<14} {'bytes sent':>12} {'time':>10} {'here':>12}  right")
    for name in ways:
        wall = median(times[name][0] for times in rounds)
        busy = median(times[name][1] for times in rounds)
        right = np.allclose(products[name], exact, atol=1e-9 * math.sqrt(args.size))
        print(
            f"{name:<14} {moved[name]:>12,} {1000 * wall:7.1f} ms"
            f" {100 * busy:6.0f} % CPU  {'yes' if right else 'NO'}"
        )


if __name__ == "__main__":
    run_program(main)
