"""Goodput: the share of the time that counts, in a training that fails now and then."""

from parallel_by_hand.failures.checkpoint_interval import hours_between_failures

HOUR = 3600.0


def goodput(gpus: int, lost: float) -> float:
    """The share of time that counts, if each interruption costs `lost` seconds.

    `lost` is all of it: what was computed since the last checkpoint, the search for
    the fault, the restart, and what was spent on saving since the failure before.
    """
    return max(0.0, 1 - lost / (HOUR * hours_between_failures(gpus)))


def affordable_loss(gpus: int, share: float) -> float:
    """Seconds that an interruption may cost for so much goodput."""
    return (1 - share) * HOUR * hours_between_failures(gpus)
