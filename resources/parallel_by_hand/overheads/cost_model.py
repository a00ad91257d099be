"""What k workers cost: T(k) = a + b/k + c·k, fitted to measured times."""

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls


class Costs(NamedTuple):
    """The model's seconds: `a` in any case, `b` to share out, `c` for each worker."""

    a: float
    b: float
    c: float

    def seconds(self, workers: int, at_once: float = float("inf")) -> float:
        """T(workers), where at most `at_once` of them can work at the same time."""
        return self.a + self.b / min(workers, at_once) + self.c * workers

    def best(self, most: int, at_once: float = float("inf")) -> int:
        """The number of workers, from 1 to `most`, with the smallest T."""
        return min(range(1, most + 1), key=lambda k: self.seconds(k, at_once))


def fit_costs(
    times: dict[int, Iterable[float]],
    at_once: float = float("inf"),
    b: float | None = None,
) -> Costs:
    """The model of costs that comes nearest to the median times, by least squares.

    T is linear in a, b and c, so each number of workers gives one linear equation.
    No cost is below zero. On a noisy machine `numpy.linalg.lstsq` would find some that
    are; `nnls` is the same method with that condition. If `b` is known, only a and c
    are fitted: with one core a and b cannot be told apart.
    """
    rows = np.array([[1, 1 / min(k, at_once), k] for k in times])
    seconds = np.array([median(times[k]) for k in times])
    if b is not None:
        seconds -= b * rows[:, 1]
        rows[:, 1] = 0  # nothing of b is left to be found
    costs = Costs(*map(float, nnls(rows, seconds)[0]))
    return costs if b is None else costs._replace(b=b)
