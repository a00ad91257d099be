"""Wrong answers to the exercises of lesson 18b."""

import contextlib
import copy
import io
import math
import os
import shutil
import tempfile
import time
from fractions import Fraction

import numpy as np
import torch

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.failures.resumable_training import restore as right_restore
from parallel_by_hand.failures.resumable_training import snapshot as right_snapshot

# 18b-save -----------------------------------------------------------------------------


def write_synced(state, second):
    with open(second, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


@wrong(
    "18b-save",
    advice="until the new checkpoint is complete",
    note="They open the old file, which empties it.",
)
def save_in_place(state, path):
    torch.save(state, path)


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
    advice="old checkpoint is gone",
    note="They take the old checkpoint away first, to be safe.",
)
def save_after_removing(state, path):
    second = path.with_name(path.name + ".tmp")
    write_synced(state, second)
    path.unlink(missing_ok=True)
    os.rename(second, path)


@wrong(
    "18b-save",
    advice="a power cut",
    note="A kill does no harm here: the system still has the bytes.",
)
def save_without_sync(state, path):
    second = path.with_name(path.name + ".tmp")
    torch.save(state, second)
    os.replace(second, path)


def pickled(state):
    room = io.BytesIO()
    torch.save(state, room)
    return room.getvalue()


@wrong(
    "18b-save",
    advice="a power cut",
    note="They synchronise when the new name is already there.",
)
def save_synced_after_the_name(state, path):
    second = path.with_name(path.name + ".tmp")
    torch.save(state, second)
    os.replace(second, path)
    with open(path, "rb") as file:
        os.fsync(file.fileno())


@wrong(
    "18b-save",
    advice="how many steps",
    note="They copy the complete second file over the old one, byte by byte.",
)
def save_and_copy(state, path):
    second = path.with_name(path.name + ".tmp")
    write_synced(state, second)
    shutil.copyfile(second, path)
    second.unlink()


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


@wrong(
    "18b-save",
    advice="does the next call mind",
    note="They open the second file with `x`, so what a kill has left stops the next "
    "save.",
)
def save_once_only(state, path):
    second = path.with_name(path.name + ".tmp")
    with open(second, "xb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(second, path)


@wrong(
    "18b-save",
    advice="who learns",
    note="They catch the error, and training goes on as if it had been saved.",
)
def save_in_silence(state, path):
    second = path.with_name(path.name + ".tmp")
    try:
        write_synced(state, second)
        os.replace(second, path)
    except Exception:
        print("could not save")


@wrong(
    "18b-save",
    advice="which line never ends",
    state="HUNG or NOT YET",
    note="They wait until no other second file is there; one that a kill has left "
    "stays for ever.",
)
def save_when_nobody_else_does(state, path):
    while list(path.parent.glob("*.tmp")):
        time.sleep(0.01)
    save_in_place(state, path)


@wrong(
    "18b-save",
    advice="what lies at `path`",
    note="They write the second file and forget the new name.",
)
def save_second_file_only(state, path):
    write_synced(state, path.with_name(path.name + ".tmp"))


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
    second = path.parent / f"{path.name}.{os.getpid()}"
    try:
        second.write_bytes(pickled(state))
        with second.open("rb+") as file:
            os.fsync(file)
        second.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            second.unlink()


# 18b-resume ---------------------------------------------------------------------------


def shallow_snapshot(training):
    return {
        "model": training.model.state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "shuffle": training.shuffle.get_state(),
        "noise": training.noise.get_state(),
        "place": (training.order, training.used, training.step),
    }


def snapshot_with_cloned_model(training):
    saved = shallow_snapshot(training)
    saved["model"] = {name: t.clone() for name, t in saved["model"].items()}
    return saved


def restore_in_place(training, saved):
    training.model.load_state_dict(saved["model"])
    training.optimizer.load_state_dict(saved["optimizer"])
    training.shuffle.set_state(saved["shuffle"])
    training.noise.set_state(saved["noise"])
    training.order, training.used, training.step = saved["place"]


def restore_without(*parts):
    """A restore that leaves these parts as they are in the training it is given."""

    def restore(training, saved):
        right_restore(training, saved | {p: right_snapshot(training)[p] for p in parts})

    return restore


restore_without_optimizer = restore_without("optimizer")
restore_without_noise = restore_without("noise")
restore_without_shuffle = restore_without("shuffle")


def restore_without_order(training, saved):
    order = training.order
    right_restore(training, saved)
    training.order = order


def restore_at_the_epochs_start(training, saved):
    right_restore(training, saved)
    training.used = 0


def snapshot_of_rank_0(training):
    import torch.distributed as dist

    saved = [right_snapshot(training)]
    dist.broadcast_object_list(saved, 0)
    return saved[0]


def restore_with_global_seed(training, saved):
    right_restore(training, saved)
    torch.set_rng_state(saved["noise"])


def snapshot_by_file(training):
    room = io.BytesIO()
    torch.save(vars_of(training), room)
    room.seek(0)
    return torch.load(room, weights_only=True)


def vars_of(training):
    saved = {name: getattr(training, name) for name in ("order", "used", "step")}
    for name in ("model", "optimizer"):
        saved[name] = getattr(training, name).state_dict()
    return saved | {n: getattr(training, n).get_state() for n in ("shuffle", "noise")}


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
    """Parameters and momenta by hand, each cloned; the rate as a number."""
    momenta = [
        training.optimizer.state[p]["momentum_buffer"].clone()
        for p in training.model.parameters()
        if p in training.optimizer.state
    ]
    return {
        "weights": [p.detach().clone() for p in training.model.parameters()],
        "momenta": momenta,
        "rate": training.optimizer.param_groups[0]["lr"],
        "dice": torch.stack([training.shuffle.get_state(), training.noise.get_state()]),
        "order": training.order.clone(),
        "numbers": [training.used, training.step],
    }


def restore_part_by_part(training, saved):
    parameters = list(training.model.parameters())
    training.optimizer.state.clear()
    with torch.no_grad():
        for parameter, weight in zip(parameters, saved["weights"], strict=True):
            parameter.copy_(weight)
    for parameter, momentum in zip(parameters, saved["momenta"], strict=False):
        training.optimizer.state[parameter]["momentum_buffer"] = momentum.clone()
    training.optimizer.param_groups[0]["lr"] = saved["rate"]
    training.shuffle.set_state(saved["dice"][0])
    training.noise.set_state(saved["dice"][1].clone())  # torch crashes on a view
    training.order = saved["order"].clone()
    training.used, training.step = saved["numbers"]


# 18b-clock ----------------------------------------------------------------------------


def clock(
    last_saves=False, keeps=0, saving_counts=False, restarts="anew", strict=False
):
    """A clock with one of the known mistakes."""

    def finish(work, every, save, restart, failures):
        now = saved = 0
        for failure in [*failures, math.inf]:
            while True:
                last = saved + every >= work
                part = work - saved if last else every
                end = now + part + (0 if last and not last_saves else save)
                if end > failure or (strict and end == failure):
                    break
                now, saved = end, saved + part
                if saved >= work:
                    return now
            if saving_counts and now + part <= failure and not last:
                saved += part
            if keeps and failure > now:
                saved = min(work - 1, saved + max(0, min(part, failure - now)))
            if restarts == "added" and failure < now:
                now += restart
            elif restarts == "ignored" and failure < now:
                continue
            elif restarts == "free":
                now = failure
            else:
                now = failure + restart
        return now

    return finish


wrong(
    "18b-clock",
    advice="after the last second",
    name="a last save",
    note="They save after the last second of work as well.",
)(clock(last_saves=True))
wrong(
    "18b-clock",
    advice="complete by then",
    name="nothing is lost",
    note="They keep what was computed since the checkpoint.",
)(clock(keeps=1))
wrong(
    "18b-clock",
    advice="complete by then",
    name="half a save counts",
    note="They count a checkpoint whose saving had only begun.",
)(clock(saving_counts=True))
wrong(
    "18b-clock",
    advice="restart counts",
    name="restarts added",
    note="They add a whole restart when a failure falls into one; it begins anew.",
)(clock(restarts="added"))
wrong(
    "18b-clock",
    advice="restart counts",
    name="failures in restarts ignored",
    note="A node that comes up may fail while it comes up.",
)(clock(restarts="ignored"))
wrong(
    "18b-clock",
    advice="when training goes on",
    name="free restarts",
    note="They forget the restart.",
)(clock(restarts="free"))


@wrong(
    "18b-clock",
    advice="complete by then",
    note="They lose everything at a failure, as if nothing had been saved.",
)
def clock_that_begins_at_zero(work, every, save, restart, failures):
    now = 0
    while True:
        end = now + work + (math.ceil(work / every) - 1) * save
        coming = [f for f in failures if now <= f < end]
        if not coming:
            return end
        now = coming[0] + restart


@wrong(
    "18b-clock",
    advice="once for each second",
    state="HUNG",
    note="Right, and a failure every eleven days takes hours.",
)
def clock_second_by_second(work, every, save, restart, failures):
    now = saved = made = 0
    busy, then = 0, "compute"
    while True:
        now += 1
        if busy:
            busy -= 1
            if not busy and then == "saved":
                saved, made, then = saved + every, 0, "compute"
        else:
            made += 1
            if saved + made == work:
                return now
            if made == every:
                busy, then = save, "saved"
                if not save:
                    saved, made, then = saved + every, 0, "compute"
        if now in failures:
            made, busy, then = 0, restart, "compute"


@wrong(
    "18b-clock",
    advice="complete by then",
    note="They add half an interval for each failure, the average.",
)
def clock_of_the_mean(work, every, save, restart, failures):
    lost = len(failures) * (every / 2 + restart)
    return work + (math.ceil(work / every) - 1) * save + lost


@wrong(
    "18b-clock",
    advice="how long training waits",
    note="They forget that saving takes time.",
)
def clock_without_saving_time(work, every, save, restart, failures):
    return clock()(work, every, 0, restart, failures)


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


wrong(
    "18b-resume",
    advice="whose tensors are in it",
    name="no copy",
    note="Saved at once, nobody notices; saved in the background, it is a mix.",
)((shallow_snapshot, right_restore))
wrong(
    "18b-resume",
    advice="whose tensors are in it",
    name="momentum not copied",
    note="They copy the model, and forget that the optimiser has tensors, too.",
)((snapshot_with_cloned_model, right_restore))
wrong(
    "18b-resume",
    advice="in whose tensors the optimiser goes on",
    name="restored without a copy",
    note="`load_state_dict` of an optimiser goes on working in the tensors it was "
    "given.",
)((right_snapshot, restore_in_place))
wrong(
    "18b-resume",
    advice="momentum",
    name="without the optimiser",
    note="They save the model alone.",
)((right_snapshot, restore_without_optimizer))
wrong(
    "18b-resume",
    advice="is dropped",
    name="without the noise",
    note="They forget the generator that draws what is dropped.",
)((right_snapshot, restore_without_noise))
wrong(
    "18b-resume",
    advice="the next epoch",
    name="without the shuffle",
    note="They save the order in use and forget the generator of the next one.",
)((right_snapshot, restore_without_shuffle))
wrong(
    "18b-resume",
    advice="has been drawn already",
    name="without the order",
    note="The generator's state is behind the order that is in use.",
)((right_snapshot, restore_without_order))
wrong(
    "18b-resume",
    advice="how many images of this epoch",
    name="from the epoch's start",
    note="They begin the epoch again, so images are used twice.",
)((right_snapshot, restore_at_the_epochs_start))
wrong(
    "18b-resume",
    advice="this rank's",
    name="rank 0's noise",
    note="They save what rank 0 has for all, as with replicas.",
)((snapshot_of_rank_0, right_restore))
wrong(
    "18b-resume",
    advice="training's own",
    name="the wrong generator",
    note="They set the process's generator instead of the training's.",
)((right_snapshot, restore_with_global_seed))
right("18b-resume", name="through a file in memory")(
    (snapshot_by_file, restore_by_names)
)
right("18b-resume", name="part by part")((snapshot_part_by_part, restore_part_by_part))
