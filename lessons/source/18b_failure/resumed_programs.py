"""What the check of stopping and going on runs in each rank, and notes there."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.failures.resumable_training import DigitsTraining

MOMENTS = {  # steps; an epoch has 22
    0: "before the first step",
    9: "in the middle of an epoch",
    22: "right after an epoch",
    30: "in the second epoch",
}
AFTER = 3  # steps more, of which each moment's end before the next moment


class SnapshotNotes(NamedTuple):
    kind: str
    unreadable: str = ""  # why torch.load refuses the file, or nothing
    changed: tuple = ()  # the keys of what the next steps have changed
    training_kept: bool = True


class RestoreNotes(NamedTuple):
    differ: set[str]  # the parts that are not as they were
    goes_on: bool
    stays: bool


def take_resumed_steps(training: DigitsTraining, steps: int) -> Tensor:
    """The losses of the steps, and all parameters after them."""
    losses = [training.take_step() for _ in range(steps)]
    return torch.cat([torch.tensor(losses), training.parameters()])


def state_of_resumed(training: DigitsTraining) -> dict[str, object]:
    """By the name of each part, something that is equal if the part is."""
    momenta = training.optimizer.state_dict()["state"].values()
    buffers = [momentum.get("momentum_buffer") for momentum in momenta]
    rates = [group["lr"] for group in training.optimizer.param_groups]
    return {
        "model": training.parameters(),
        "optimizer": [rates, [b.clone().cpu() for b in buffers if b is not None]],
        "order": torch.as_tensor(training.order[training.used :]).clone(),
        "step": int(training.step),
        "shuffle": training.shuffle.get_state(),
        "noise": training.noise.get_state(),
    }


def same_when_resumed(one: object, other: object) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same_when_resumed(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(same_when_resumed(a, b) for a, b in pairs)
    return type(one) is type(other) and one == other


def place_of_resumed(folder: Path, moment: int, what: str) -> Path:
    return folder / f"{what}_{moment}_{dist.get_rank()}.pt"


def try_snapshots(snapshot: Callable, folder: Path) -> list[SnapshotNotes]:
    """One training, whose snapshots are taken on the way."""
    training, notes, done = DigitsTraining(), [], 0
    for moment in MOMENTS:
        take_resumed_steps(training, moment - done)
        done = moment + AFTER
        notes.append(_try_snapshot(snapshot, folder, moment, training))
    return notes


def _try_snapshot(
    snapshot: Callable, folder: Path, moment: int, training: DigitsTraining
) -> SnapshotNotes:
    before, saved = state_of_resumed(training), snapshot(training)
    kind = type(saved).__name__
    if not isinstance(saved, dict):
        return SnapshotNotes(kind)
    if not same_when_resumed(before, state_of_resumed(training)):
        return SnapshotNotes("dict", training_kept=False)
    path = place_of_resumed(folder, moment, "snapshot")
    try:
        torch.save(saved, path)
        at_once = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        return SnapshotNotes("dict", type(error).__name__)
    after = take_resumed_steps(training, AFTER)
    torch.save([before, after], place_of_resumed(folder, moment, "right"))
    torch.save(saved, place_of_resumed(folder, moment, "later"))
    later = torch.load(place_of_resumed(folder, moment, "later"), weights_only=True)
    changed = (k for k in later if not same_when_resumed(at_once.get(k), later[k]))
    return SnapshotNotes("dict", "", tuple(changed))


def try_restores(restore: Callable, folder: Path) -> list[RestoreNotes]:
    """In other processes than those that took the snapshots."""
    return [_try_restore(restore, folder, moment) for moment in MOMENTS]


def _try_restore(restore: Callable, folder: Path, moment: int) -> RestoreNotes:
    path = place_of_resumed(folder, moment, "snapshot")
    saved, untouched = (
        torch.load(path, map_location="cpu", weights_only=True) for _ in range(2)
    )
    before, after = torch.load(
        place_of_resumed(folder, moment, "right"), weights_only=True
    )
    training = DigitsTraining()
    take_resumed_steps(training, 3)  # it may have taken steps of its own
    restore(training, saved)
    now = state_of_resumed(training)
    differ = {part for part in before if not same_when_resumed(before[part], now[part])}
    goes_on = torch.equal(take_resumed_steps(training, AFTER), after)
    return RestoreNotes(differ, goes_on, same_when_resumed(saved, untouched))
