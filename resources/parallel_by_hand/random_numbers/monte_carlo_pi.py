"""Pi from random points, with streams that are copied or independent."""

import math

import numpy as np

Stream = np.random.Generator


def circle_hits(stream: Stream, points: int, repeats: int) -> np.ndarray:
    """How many of `points` random points in the unit square fall in the quarter circle.

    Repeated with new points, to see how far an estimate is off as a rule.
    """
    found = np.empty(repeats, dtype=np.int64)
    for repeat in range(repeats):
        x, y = stream.random((2, points))
        found[repeat] = np.count_nonzero(x * x + y * y < 1)
    return found


def copied(seed: int, workers: int) -> list[Stream]:
    """For pi, the same generator for each worker: it is copied when it is sent."""
    return [np.random.default_rng(seed)] * workers


def spawned(seed: int, workers: int) -> list[Stream]:
    """For pi, a generator of its own for each worker."""
    children = np.random.SeedSequence(seed).spawn(workers)
    return [np.random.default_rng(child) for child in children]


def pi_errors(hits_of_each: list[np.ndarray], points: int) -> list[float]:
    """The error of pi by one worker, by two together, by three ..., as a rule.

    The mean over the repeats is taken of the squared error; the result is its root.
    """
    together = np.cumsum(hits_of_each, axis=0)
    counts = np.arange(1, len(together) + 1)[:, None]
    estimates = 4 * together / (points * counts)
    return np.sqrt(np.mean((estimates - math.pi) ** 2, axis=1)).tolist()
