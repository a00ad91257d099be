"""Lesson 07: many numbers for a worker, sent or found by the memory's name."""

from multiprocessing.shared_memory import SharedMemory

import numpy as np


def sum_sent_numbers(numbers: np.ndarray) -> float:
    """Runs in a worker: all the numbers come through a pipe."""
    return float(numbers.sum())


def sum_named_numbers(name: str, count: int) -> float:
    """Runs in a worker: the name comes through a pipe, the numbers stay in place."""
    memory = SharedMemory(name)
    numbers = np.ndarray(count, buffer=memory.buf)  # a view, no copy
    total = float(numbers.sum())
    del numbers  # memory cannot be closed while something still looks at it
    memory.close()
    return total
