"""What the check of stopping and going on runs in each rank, and notes there."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from demos.failures.parts.resumable_training import DigitsTraining
from sidebyside.message_meter import MessageMeter

MOMENTS = 0, 4, 9, 22, 30  # steps; an epoch has 22
WHERE = {
    0: "before the first step",
    4: "after four steps",
    9: "in the middle of an epoch",
    22: "right after an epoch",
    30: "in the second epoch",
}
AFTER = 3  # steps more, of which each moment's end before the next moment


class SnapshotNotes(NamedTuple):
    kind: str
    is_dictionary: bool
    unreadable: str  # why torch.load refuses the file, or nothing
    disturbed: bool
    stays: bool
    called: list[str]  # what it asked torch.distributed to send


class RestoreNotes(NamedTuple):
    differ: set[str]  # the parts that are not as they were
    disturbed: bool
    goes_on: bool
    stays: bool
    again: bool
    called: list[str]


def take_steps(training: DigitsTraining, steps: int) -> Tensor:
    """The losses of the steps, and all parameters after them."""
    losses = [training.take_step() for _ in range(steps)]
    return torch.cat([torch.tensor(losses), training.parameters()])


def own_state(training: DigitsTraining) -> dict[str, object]:
    """By the name of each part, something that is equal if the part is."""
    momenta = training.optimizer.state_dict()["state"].values()
    rates = [group["lr"] for group in training.optimizer.param_groups]
    return {
        "model": training.parameters(),
        "optimizer": [rates, [m["momentum_buffer"].clone().cpu() for m in momenta]],
        "order": training.order.clone(),
        "used": int(training.used),
        "step": int(training.step),
        "shuffle": training.shuffle.get_state(),
        "noise": training.noise.get_state(),
    }


def same(one: object, other: object) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(same(a, b) for a, b in pairs)
    return type(one) is type(other) and one == other


def global_dice() -> tuple:
    return random.getstate(), torch.get_rng_state()


def calls_of(meter: MessageMeter) -> list[str]:
    return meter.collectives + ["send or recv" for _ in meter.events]


def place_of(folder: Path, moment: int, what: str) -> Path:
    return folder / f"{what}_{moment}_{dist.get_rank()}.pt"


def try_snapshots(snapshot: Callable, folder: Path) -> list[SnapshotNotes]:
    """One training, whose snapshots are taken on the way."""
    training, notes, done = DigitsTraining(), [], 0
    for moment in MOMENTS:
        take_steps(training, moment - done)
        done = moment + AFTER
        notes.append(_try_snapshot(snapshot, folder, moment, training))
    return notes


def _try_snapshot(
    snapshot: Callable, folder: Path, moment: int, training: DigitsTraining
) -> SnapshotNotes:
    before, dice = own_state(training), global_dice()
    with MessageMeter() as meter:
        saved = snapshot(training)
    called = calls_of(meter)
    disturbed = not same(before, own_state(training)) or not same(dice, global_dice())
    kind = type(saved).__name__
    if not isinstance(saved, dict):
        return SnapshotNotes(kind, False, "", False, False, called)
    path = place_of(folder, moment, "snapshot")
    try:
        torch.save(saved, path)
        at_once = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        why = type(error).__name__
        return SnapshotNotes(kind, True, why, False, False, called)
    after = take_steps(training, AFTER)
    torch.save([before, after], place_of(folder, moment, "right"))
    torch.save(saved, place_of(folder, moment, "later"))
    later = torch.load(place_of(folder, moment, "later"), weights_only=True)
    return SnapshotNotes(kind, True, "", disturbed, same(at_once, later), called)


def try_restores(restore: Callable, folder: Path) -> list[RestoreNotes]:
    """In other processes than those that took the snapshots."""
    return [_try_restore(restore, folder, moment) for moment in MOMENTS]


def _try_restore(restore: Callable, folder: Path, moment: int) -> RestoreNotes:
    path = place_of(folder, moment, "snapshot")
    saved = torch.load(path, map_location="cpu", weights_only=True)
    before, after = torch.load(place_of(folder, moment, "right"), weights_only=True)
    training = DigitsTraining()
    random.random(), torch.rand(1)  # others have drawn since the snapshot
    dice = global_dice()
    take_steps(training, 3)  # it may have taken steps of its own
    with MessageMeter() as meter:
        restore(training, saved)
    disturbed = not same(dice, global_dice())
    now = own_state(training)
    differ = {part for part in before if not same(before[part], now[part])}
    goes_on = torch.equal(take_steps(training, AFTER), after)
    stays = same(saved, torch.load(path, map_location="cpu", weights_only=True))
    second = DigitsTraining()
    restore(second, saved)
    again = torch.equal(take_steps(second, AFTER), after)
    return RestoreNotes(differ, disturbed, goes_on, stays, again, calls_of(meter))
