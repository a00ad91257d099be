"""Wrong answers to the exercises of lesson 18b."""

import copy
import io
import math
import os
import shutil
import tempfile
from fractions import Fraction
from functools import partial

import numpy as np
import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.failures.training_snapshots import restore as right_restore
from parallel_by_hand.failures.training_snapshots import snapshot as right_snapshot

# 18b-save -----------------------------------------------------------------------------


def write_synced(state, second, mode="wb"):
    with open(second, mode) as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def second_file_of(path):
    return path.with_name(path.name + ".tmp")


@wrong(
    "18b-save",
    advice="two processes that save at the same time",
    note="step.10 and step.20 become step.tmp: two ranks write one file.",
)
def save_with_suffix(state, path):
    write_synced(state, path.with_suffix(".tmp"))
    os.replace(path.with_suffix(".tmp"), path)


@wrong(
    "18b-save",
    advice="until the new checkpoint is complete",
    note="They open the old file, which empties it.",
)
def save_in_place(state, path):
    torch.save(state, path)


@wrong(
    "18b-save",
    advice="old checkpoint is gone",
    note="They take the old checkpoint away first, to be safe.",
)
def save_after_removing(state, path):
    write_synced(state, second_file_of(path))
    path.unlink(missing_ok=True)
    os.rename(second_file_of(path), path)


@wrong(
    "18b-save",
    advice="a power cut",
    note="They synchronise when the new name is there already. A kill does no "
    "harm here: the system still has the bytes.",
)
def save_synced_after_the_name(state, path):
    torch.save(state, second_file_of(path))
    os.replace(second_file_of(path), path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


@wrong(
    "18b-save",
    advice="how many steps",
    note="They copy the complete second file over the old one, byte by byte.",
)
def save_and_copy(state, path):
    write_synced(state, second_file_of(path))
    shutil.copyfile(second_file_of(path), path)
    second_file_of(path).unlink()


@wrong(
    "18b-save",
    advice="in the same folder",
    note="They write into the folder for temporary files, which may be on another "
    "disk.",
)
def save_in_another_folder(state, path):
    folder = tempfile.mkdtemp()
    write_synced(state, os.path.join(folder, path.name))
    shutil.move(os.path.join(folder, path.name), path)
    os.rmdir(folder)


@right("18b-save")
def save_by_tempfile(state, path):
    number, second = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(number, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(second, path)


@right("18b-save")
def save_and_tidy_up(state, path):
    """Bytes are made in memory first; a failure removes the second file."""
    second, room = path.parent / f"{path.name}.{os.getpid()}", io.BytesIO()
    torch.save(state, room)
    try:
        second.write_bytes(room.getvalue())
        with second.open("rb+") as file:
            os.fsync(file)
        second.replace(path)
    finally:
        second.unlink(missing_ok=True)


# 18b-resume ---------------------------------------------------------------------------


def resume(name: str, advice: str, note: str, snapshot=None, restore=None) -> None:
    """Declare a pair that is wrong in what is given, and right in the rest."""
    pair = snapshot or right_snapshot, restore or right_restore
    wrong("18b-resume", advice=advice, name=name, note=note)(pair)


def snapshot_without_copies(training):
    return {
        "model": training.model.state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "shuffle": training.shuffle.get_state(),
        "noise": training.noise.get_state(),
        "place": (training.order, training.used, training.step),
    }


def restore_in_place(training, saved):
    training.model.load_state_dict(saved["model"])
    training.optimizer.load_state_dict(saved["optimizer"])
    training.shuffle.set_state(saved["shuffle"])
    training.noise.set_state(saved["noise"])
    training.order, training.used, training.step = saved["place"]


def restore_without(part):
    """A restore that leaves this part as it is in the training it is given."""

    def restore(training, saved):
        right_restore(training, saved | {part: right_snapshot(training)[part]})

    return restore


def restore_without_order(training, saved):
    order = training.order
    right_restore(training, saved)
    training.order = order


def snapshot_of_rank_0(training):
    saved = [right_snapshot(training)]
    dist.broadcast_object_list(saved, 0)
    return saved[0]


resume(
    "no copy",
    "whose tensors are in it",
    "Saved at once, nobody notices; saved in the background, it is a mix.",
    snapshot=snapshot_without_copies,
)
resume(
    "restored without a copy",
    "in whose tensors the optimiser goes on",
    "`load_state_dict` of an optimiser goes on working in the tensors it was given.",
    restore=restore_in_place,
)
resume(
    "without the optimiser",
    "momentum",
    "They save the model alone.",
    restore=restore_without("optimizer"),
)
resume(
    "without the noise",
    "is dropped",
    "They forget the generator that draws what is dropped.",
    restore=restore_without("noise"),
)
resume(
    "without the order",
    "drawn already",
    "The generator's state is behind the order that is in use.",
    restore=restore_without_order,
)
resume(
    "rank 0's noise",
    "this rank's",
    "They save what rank 0 has for all, as with replicas.",
    snapshot=snapshot_of_rank_0,
)


def snapshot_by_file(training):
    saved = {name: getattr(training, name) for name in ("order", "used", "step")}
    for name in ("model", "optimizer"):
        saved[name] = getattr(training, name).state_dict()
    saved |= {n: getattr(training, n).get_state() for n in ("shuffle", "noise")}
    room = io.BytesIO()
    torch.save(saved, room)
    room.seek(0)
    return torch.load(room, weights_only=True)


def restore_by_names(training, saved):
    for name, value in copy.deepcopy(saved).items():
        part = getattr(training, name)
        if hasattr(part, "load_state_dict"):
            part.load_state_dict(value)
        elif isinstance(part, torch.Generator):
            part.set_state(value)
        else:
            setattr(training, name, value)


def snapshot_part_by_part(training):
    """Each cloned by hand; the rate as a number, and of the order what is left."""
    parameters = list(training.model.parameters())
    momenta = [training.optimizer.state[p].get("momentum_buffer") for p in parameters]
    return {
        "weights": [p.detach().clone() for p in parameters],
        "momenta": copy.deepcopy(momenta),  # None before the first step
        "rate": training.optimizer.param_groups[0]["lr"],
        "dice": torch.stack([training.shuffle.get_state(), training.noise.get_state()]),
        "rest": training.order[training.used :].clone(),
        "step": training.step,
    }


def restore_part_by_part(training, saved):
    parameters = list(training.model.parameters())
    training.optimizer.state.clear()
    with torch.no_grad():
        for parameter, weight in zip(parameters, saved["weights"], strict=True):
            parameter.copy_(weight)
    for parameter, momentum in zip(parameters, saved["momenta"], strict=True):
        own = copy.deepcopy(momentum)
        training.optimizer.state[parameter]["momentum_buffer"] = own
    training.optimizer.param_groups[0]["lr"] = saved["rate"]
    training.shuffle.set_state(saved["dice"][0])
    training.noise.set_state(saved["dice"][1].clone())  # torch crashes on a view
    training.order, training.used = saved["rest"].clone(), 0
    training.step = saved["step"]


right("18b-resume", name="through a file in memory")(
    (snapshot_by_file, restore_by_names)
)
right("18b-resume", name="part by part")((snapshot_part_by_part, restore_part_by_part))

# 18b-clock ----------------------------------------------------------------------------


def clock(name: str, advice: str, note: str, **mistake) -> None:
    """Declare a clock with one of the known mistakes."""
    answer = partial(finish_with_a_mistake, **mistake)
    wrong("18b-clock", advice=advice, name=name, note=note)(answer)


def finish_with_a_mistake(
    work, every, save, restart, failures, last_saves=False, keeps=None, restarts="anew"
):
    now = saved = 0
    for failure in [*failures, math.inf]:
        while True:
            last = saved + every >= work
            part = work - saved if last else every
            end = now + part + (0 if last and not last_saves else save)
            if end > failure:
                break
            now, saved = end, saved + part
            if saved >= work:
                return now
        if keeps == "computed" and failure > now:
            saved = min(work - 1, saved + min(part, failure - now))
        if keeps == "half saved" and now + part <= failure and not last:
            saved += part
        if restarts == "added" and failure < now:
            now += restart
        else:
            now = failure + restart
    return now


clock(
    "a last save",
    "after the last",
    "They save after the last second of work as well.",
    last_saves=True,
)
clock(
    "nothing is lost",
    "4 seconds of work are saved",
    "They keep what was computed since the checkpoint.",
    keeps="computed",
)
clock(
    "half a save counts",
    "0 seconds of work are saved",
    "They count a checkpoint whose saving had only begun.",
    keeps="half saved",
)
clock(
    "restarts added",
    "restart counts",
    "They add a whole restart when a failure falls into one; it begins anew.",
    restarts="added",
)


@wrong("18b-clock", advice="training goes on at 9", note="They forget the restart.")
def clock_with_free_restarts(work, every, save, restart, failures):
    return finish_with_a_mistake(work, every, save, 0, failures)


@wrong(
    "18b-clock",
    advice="what takes time",
    note="They forget that saving takes time.",
)
def clock_without_saving_time(work, every, save, restart, failures):
    return finish_with_a_mistake(work, every, 0, restart, failures)


@right("18b-clock")
def clock_by_rounds(work, every, save, restart, failures):
    """Whole rounds at once, by division, in NumPy's numbers."""
    rounds, done, now = np.int64(math.ceil(work / every) - 1), np.int64(0), np.int64(0)
    for failure in failures:
        end = now + (rounds - done) * (every + save) + work - rounds * every
        if end <= failure:
            return end
        if failure > now:
            done += min((failure - now) // (every + save), rounds - done)
        now = np.int64(failure + restart)
    return now + (rounds - done) * (every + save) + work - rounds * every


@right("18b-clock")
def clock_by_fractions(work, every, save, restart, failures):
    now, left, coming = Fraction(0), Fraction(work), list(failures)
    while left > 0:
        part = min(left, Fraction(every))
        end = now + part + (save if left > every else 0)
        if coming and coming[0] < end:
            now = Fraction(coming.pop(0) + restart)
        else:
            now, left = end, left - part
    return now
