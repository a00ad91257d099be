"""Two matrices multiplied block by block, in processes."""

import os
import pickle
from itertools import pairwise, product
from multiprocessing import get_context
from time import perf_counter, process_time
from unittest import mock

import numpy as np

from sidebyside.programs.run_program import end_with_parent

# "spawn" is the one start method that Linux, macOS and Windows have in common.
spawn = get_context("spawn")
ONE_THREAD_EACH = dict.fromkeys(  # so workers let the library compute
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1"
)
shared: dict[str, np.ndarray] = {}  # in a worker: the three matrices


def matrix_strips(size: int, cuts: int) -> list[slice]:
    """Blocks come from strips: 0 to size - 1 in `cuts` ranges of nearly equal size."""
    ends = [size * cut // cuts for cut in range(cuts + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def matrix_blocks(size: int, cuts: int) -> list[tuple[slice, slice]]:
    """The rows and columns of each block of the product: cuts x cuts of them."""
    strips = matrix_strips(size, cuts)
    return list(product(strips, strips))


def multiply_sent(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Runs in a worker: a block whose numbers come and go through a pipe."""
    return rows @ columns


def multiply_shared(rows: slice, columns: slice) -> None:
    """Runs in a worker: only the block's place is sent, nothing comes back."""
    product = shared["C"][rows, columns]
    product[:] = shared["A"][rows] @ shared["B"][:, columns]


def _as_matrices(size: int, memory: dict) -> dict[str, np.ndarray]:
    """See each piece of memory as a square matrix, without a copy."""
    return {name: np.frombuffer(m).reshape(size, size) for name, m in memory.items()}


def _attach(size: int, memory: dict) -> None:
    """Runs once in each worker, as it starts: a RawArray cannot be sent later."""
    end_with_parent()
    shared.update(_as_matrices(size, memory))


class BlockProduct:
    """A, B and C in shared memory; C = A B, in `cuts` x `cuts` blocks.

    `with product:` starts workers that see all three, and ends them.
    """

    def __init__(self, size: int, cuts: int, workers: int):
        dice = np.random.default_rng(0)
        self.places = matrix_blocks(size, cuts)
        memory = {name: spawn.RawArray("d", size * size) for name in "ABC"}
        self.workers, self.attached = workers, (size, memory)
        self.A, self.B, self.C = _as_matrices(size, memory).values()
        for matrix in self.A, self.B:
            matrix[:] = dice.standard_normal((size, size))

    def __enter__(self) -> "BlockProduct":
        with mock.patch.dict(os.environ, ONE_THREAD_EACH):
            self.pool = spawn.Pool(self.workers, _attach, self.attached)
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
