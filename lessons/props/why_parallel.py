"""Lesson 01's three claims: each compares a training run with one of four workers."""

from typing import NamedTuple


class ClaimedRun(NamedTuple):
    """A training run: in each step, each worker trains on a batch of its own."""

    workers: int
    batch_per_worker: int
    steps: int
    seconds: float


def claimed_speedup(one: ClaimedRun, many: ClaimedRun) -> float:
    """What the authors of the claims computed."""
    return one.seconds / many.seconds


CLAIMS = {
    "a short evening": (ClaimedRun(1, 64, 2000, 100), ClaimedRun(4, 64, 250, 15)),
    "not worth it": (ClaimedRun(1, 64, 1000, 50), ClaimedRun(4, 64, 1000, 60)),
    "small batches": (ClaimedRun(1, 64, 2000, 100), ClaimedRun(4, 16, 2000, 40)),
}
