"""Two laws of speedup, and a measurement on 1024 processors to hold them against."""

import statistics
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


def amdahl(share: float, workers: float) -> float:
    """Speedup of a fixed amount of work, of which one worker spends `share` serially.

    G. M. Amdahl, Validity of the single processor approach, AFIPS 1967.
    """
    return 1 / (share + (1 - share) / workers)


def gustafson(share: float, workers: float) -> float:
    """Scaled speedup: the work grows with the workers and so fills the same time.

    `share` is the serial part of the time that the *workers* need, not of the time
    that one would need. J. L. Gustafson, Reevaluating Amdahl's law, CACM 31(5), 1988.
    """
    return share + (1 - share) * workers


PROCESSORS = 1024  # of an nCUBE hypercube; all figures below from Gustafson 1988
SERIAL_SHARES = 0.004, 0.008  # "0.4-0.8 percent"
SCALED_SPEEDUPS = {"beam stress": 1021, "surface waves": 1020, "unstable flow": 1016}


class Fit(NamedTuple):
    """T(k) = serial + parallel / k; 95 of 100 redone fits lie from `low` to `high`."""

    serial: float
    parallel: float
    low: float
    high: float

    @property
    def share(self) -> float:
        return self.serial / (self.serial + self.parallel)

    def seconds(self, workers: float) -> float:
        return self.serial + self.parallel / workers

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        share = f"serial share {100 * self.share:.1f} %"
        return f"{share}, 95 of 100 fits: {low:.1f} to {high:.1f} %"


def fit(seconds: Mapping[float, list[float]], redone: int = 1000) -> Fit:
    """The serial share that explains `seconds`: the times of all rounds, by workers.

    A straight line through the medians, over 1 / workers, by least squares. The
    interval is a bootstrap: draw as many rounds as there were, with repetition, and
    fit them again, `redone` times. With one number of workers every share fits.
    """
    if len(seconds) < 2:
        raise ValueError(
            "one number of workers: every serial share explains the same one time"
        )
    dice, rounds = np.random.default_rng(1), len(next(iter(seconds.values())))
    line = _line(seconds, range(rounds))
    shares = []
    for _ in range(redone):
        serial, parallel = _line(seconds, dice.integers(rounds, size=rounds))
        shares.append(serial / (serial + parallel))
    low, high = np.quantile(shares, [0.025, 0.975])
    return Fit(*line, float(low), float(high))


def _line(seconds: Mapping[float, list[float]], rounds) -> tuple[float, float]:
    medians = [statistics.median(t[r] for r in rounds) for t in seconds.values()]
    parallel, serial = np.polyfit([1 / workers for workers in seconds], medians, 1)
    return float(serial), float(parallel)
