"""Three claims about speed. Each compares a training run with one of four workers."""

from typing import NamedTuple


class Run(NamedTuple):
    """A training run: in each step, each worker trains on a batch of its own."""

    workers: int
    batch_per_worker: int
    steps: int
    seconds: float


def claimed(one: Run, many: Run) -> float:
    """What the authors of the claims computed."""
    return one.seconds / many.seconds


CLAIMS = {
    "a short evening": (Run(1, 64, 2000, 100), Run(4, 64, 250, 15)),
    "not worth it": (Run(1, 64, 1000, 50), Run(4, 64, 1000, 60)),
    "small batches": (Run(1, 64, 2000, 100), Run(4, 16, 2000, 40)),
}
