"""What goes wrong, and how far, when a checkpoint lacks one of its parts."""

from typing import NamedTuple

from torch import Tensor

from demos.failures.parts.resumable_training import (
    PARTS,
    DigitsTraining,
    restore,
    snapshot,
)

EPOCH = 22  # steps
SAVED_AT, ENDS_AT = 30, 50  # in the middle of the second epoch, and in the third


class ContinuedWithoutPart(NamedTuple):
    """A training that was stopped at step `SAVED_AT` and went on to `ENDS_AT`."""

    equal: bool  # every parameter, bit for bit, to the uninterrupted training
    apart: float  # the largest difference of a parameter
    twice: int  # images that the second epoch used twice


class WatchedTraining(DigitsTraining):
    """Notes which images it uses."""

    def __init__(self):
        super().__init__()
        self.seen: list[int] = []

    def next_batch(self) -> Tensor:
        batch = super().next_batch()
        self.seen += batch.tolist()
        return batch

    def take_steps(self, steps: int) -> None:
        for _ in range(steps):
            self.take_step()


def continue_without_each_part() -> dict[str, ContinuedWithoutPart]:
    """Runs in each rank: once with the whole checkpoint, once without each part."""
    whole = WatchedTraining()
    whole.take_steps(SAVED_AT)
    saved, seen = snapshot(whole), whole.seen[EPOCH * whole.batch :]
    whole.take_steps(ENDS_AT - SAVED_AT)
    found = {}
    for part in ("nothing", *PARTS):
        training = WatchedTraining()
        begun_anew = {part: snapshot(training)[part]} if part in PARTS else {}
        restore(training, saved | begun_anew)
        training.take_steps(ENDS_AT - SAVED_AT)
        rest = training.seen[: (2 * EPOCH - SAVED_AT) * whole.batch]
        gap = (training.parameters() - whole.parameters()).abs().max().item()
        twice = len(set(seen) & set(rest))
        found[part] = ContinuedWithoutPart(gap == 0, gap, twice)
    return found
