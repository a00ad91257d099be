"""The checks of lesson 18b: an atomic save, a training that goes on, the clock."""

import os
import random
import tempfile
from pathlib import Path

from parallel_by_hand.failures.checkpoint_interval import (
    finish_time_with_failures as right_finish_time,
)
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.expectations import NotStarted
from sidebyside.exercises.rank_trials import in_ranks, run_trial

from .killed_saves import BYTES, SaveCase, SaveFound, try_saves
from .resumed_programs import (
    AFTER,
    MOMENTS,
    RestoreNotes,
    SnapshotNotes,
    try_restores,
    try_snapshots,
)

# 18b-save -----------------------------------------------------------------------------

NAMES = "step.10", "step.20", "model"


@exercise("18b-save", in_ranks=True, when_hung="which line never ends")
def check_18b_save(save_checkpoint):
    calm = [*[SaveCase(name) for name in NAMES], SaveCase(old=False)]
    with trying("save_checkpoint(state, path)"):
        whole = try_saves(save_checkpoint, calm)
    for found in whole:
        _expect_checkpoint_saved(found)
    changes = range(len(whole[0].notes.changes))
    cases = [SaveCase(kill_at=n, most=most) for n in changes for most in (None, 1000)]
    cases += [SaveCase(most=most) for most in BYTES]
    cases += [SaveCase(old=False, kill_at=n) for n in changes[1:]]
    with trying("save_checkpoint(state, path), killed"):
        killed = try_saves(save_checkpoint, cases)
    for found in killed:
        _expect_save_survived_kill(found)
    for found in whole:
        _expect_way_of_save(found)
    _expect_saves_own_second_files(whole)


def _expect_checkpoint_saved(found: SaveFound) -> None:
    old = "over an old checkpoint" if found.case.old else "where there was none"
    with trying(
        f"save_checkpoint(state, folder / {found.case.name!r}), {old}"
    ) as expect:
        notes = found.notes
        expect(
            notes is not None,
            got="nothing: the process was ended",
            think="which line of your code ends the whole process",
        )
        if notes.is_stub:
            raise NotStarted
        think = "which line says this; `path` is a pathlib.Path, whose folder exists"
        expect(not notes.error, got=notes.error, think=think)
        expect(
            found.left == "new",
            got=IN_PLACE_OF_NEW.get(found.left),
            think="what lies at `path` when your function has returned",
        )
        expect(
            not found.others,
            got=f"{', '.join(found.others)} was left in the folder",
            think="which files remain when all has gone well: the checkpoint alone",
        )
        expect(
            all(os.path.dirname(a) == os.path.dirname(b) for a, b in notes.renamed),
            got="the second file was in another folder",
            think="where the second file is: the new name is one step only if it lies "
            "in the same folder, on the same disk",
        )


IN_PLACE_OF_NEW = {
    "none": "no file at `path`",
    "old": "the old checkpoint",
    "broken": "a file that torch.load does not read as `state`",
}


def _expect_save_survived_kill(found: SaveFound) -> None:
    case = found.case
    step = "" if case.kill_at is None else f"change {case.kill_at + 1} of the folder"
    when = f"killed before its {step}"
    if case.most is not None:
        after = f" after its {step}" if step else ""
        when = f"killed{after} when a file has {case.most:,} bytes"
    allowed = {"old", "new"} if case.old else {"none", "new"}
    with trying(f"save_checkpoint(state, path), {when}") as expect:
        expect(
            found.left in allowed,
            got={
                "none": "no file at `path`: the old checkpoint is gone",
                "broken": "half a checkpoint at `path`",
            }.get(found.left, found.left),
            think="what is at `path` until the new checkpoint is complete, and how "
            "many steps of the file system put it there",
        )
        expect(
            found.again in ("", "new"),
            got="not the new checkpoint, after one more call",
            think="an unfinished file that a kill has left: does the next call mind?",
        )


def _expect_way_of_save(found: SaveFound) -> None:
    """By which steps it got there: a second file, synchronised, and its new name."""
    with trying(f"save_checkpoint(state, folder / {found.case.name!r})") as expect:
        targets = [os.path.basename(target) for _, target in found.notes.renamed]
        expect(
            found.case.name in targets,
            got="`path` was never given to a complete second file",
            think="the one step of the file system that replaces a file",
        )
        expect(
            found.notes.synced_before_name,
            got="the second file got its name before all its bytes were on the disk",
            think="a power cut behind this line: which two calls bring all bytes to "
            "the disk, and when",
        )


def _expect_saves_own_second_files(whole: list[SaveFound]) -> None:
    seen = {}
    with trying(f"save_checkpoint to {' and '.join(NAMES[:2])}") as expect:
        for found in whole[: len(NAMES)]:
            for source, _ in found.notes.renamed:
                second = os.path.basename(source)
                expect(
                    seen.setdefault(second, found.case.name) == found.case.name,
                    got=f"both use the second file {second}",
                    think="two processes that save at the same time in one folder",
                )


# 18b-resume ---------------------------------------------------------------------------


@exercise(
    "18b-resume", in_ranks=True, when_hung="whether a snapshot sends anything, to whom"
)
def check_18b_resume(snapshot, restore):
    for ranks in (2, 1):
        with tempfile.TemporaryDirectory() as folder:
            with trying(f"snapshot(training) {in_ranks(ranks)}"):
                taken = run_trial(try_snapshots, snapshot, Path(folder), ranks=ranks)
            for rank, of_rank in enumerate(taken):
                for when, notes in zip(MOMENTS.values(), of_rank, strict=True):
                    place = f"{when}, rank {rank} of {ranks}"
                    _expect_snapshot(f"snapshot(training) {place}", notes)
            with trying(f"restore(training, saved) {in_ranks(ranks)}"):
                given = run_trial(try_restores, restore, Path(folder), ranks=ranks)
            for expect_of in _expect_restored_parts, _expect_resumed_training:
                for rank, of_rank in enumerate(given):
                    for when, notes in zip(MOMENTS.values(), of_rank, strict=True):
                        place = f"{when}, rank {rank} of {ranks}"
                        expect_of(f"restore(training, saved) {place}", notes)


def _expect_snapshot(call: str, notes: SnapshotNotes) -> None:
    with trying(call) as expect:
        kind, think = notes.kind, "what is asked for: a dictionary"
        expect(kind == "dict", got=f"an object of type {kind}", think=think)
        expect(
            notes.training_kept,
            got="a training whose state has changed during the snapshot",
            think="what a snapshot does: it reads, and takes no step and draws nothing",
        )
        expect(
            not notes.unreadable,
            got=f"what torch.load(weights_only=True) refuses: {notes.unreadable}",
            think="of what kinds of values a file may be made that runs no code",
        )
        expect(
            not notes.changed,
            got=f"a snapshot whose {', '.join(map(repr, notes.changed))} changes while "
            "its training goes on",
            think="whose tensors are in it, and what the next step does to them",
        )


def _expect_restored_parts(call: str, notes: RestoreNotes) -> None:
    with trying(call) as expect:
        for part, think in THINK_OF_PARTS.items():
            got = f"another {part} than saved"
            expect(part not in notes.differ, got=got, think=think)


def _expect_resumed_training(call: str, notes: RestoreNotes) -> None:
    with trying(call) as expect:
        expect(
            notes.goes_on,
            got=f"other parameters, {AFTER} steps later, than without the stop",
            think="what a step depends on, and whether all of it is as it was",
        )
        expect(
            notes.stays,
            got="a `saved` that changes while the training goes on from it",
            think="in whose tensors the optimiser goes on after load_state_dict",
        )


THINK_OF_PARTS = {
    "model": "whose parameters the next step begins with: no step is taken here",
    "optimizer": "what the optimiser remembers: momentum, and its rate",
    "order": "the images of this epoch: the order drawn already, and how many are used",
    "step": "the number of the step",
    "shuffle": "the generator that draws the order of the next epoch",
    "noise": "the generator that draws what is dropped, this rank's own",
}

# 18b-clock ----------------------------------------------------------------------------


def _failure_clock_cases() -> list[tuple]:
    """By hand, at edges, and many drawn ones; those with fewer failures come first."""
    cases = [(8, 4, 1, 2, []), (10, 4, 1, 2, []), (10, 4, 1, 2, [7])]
    cases += [(10, 4, 1, 2, [7, 8]), (10, 4, 1, 2, [7, 14])]
    edges = [6], [7], [9], [1, 2, 3, 4, 5, 6], [5, 7, 9, 14, 40]
    cases += [(8, 4, save, 2, moments) for save in (0, 1, 3) for moments in edges]
    cases += [(3, 9, 5, 1, []), (6, 2, 1, 10, [5, 7, 9, 14, 40])]
    drawn = random.Random(18)
    for _ in range(60):
        work, every = drawn.randint(1, 40), drawn.randint(1, 12)
        moments = sorted(drawn.sample(range(1, 120), drawn.randint(0, 12)))
        cases.append((work, every, drawn.randint(0, 3), drawn.randint(0, 6), moments))
    cases = [case for case in cases if not _something_ends_at_a_failure(*case)]
    return sorted(cases, key=lambda case: len(case[-1]))


def _something_ends_at_a_failure(work, every, save, restart, failures) -> bool:
    """Then it would matter which of the two comes first."""
    earlier = [moment - 1e-6 * n for n, moment in enumerate(failures, 1)]
    ends = [
        right_finish_time(work, every, save, restart, f) for f in (failures, earlier)
    ]
    return abs(ends[0] - ends[1]) > 0.1


@exercise(
    "18b-clock",
    when_hung="what happens when nothing is saved between failures, and whether each "
    "turn of your loop brings the clock or the work further",
)
def check_18b_clock(finish_time):
    for case in _failure_clock_cases():
        with trying(f"finish_time({', '.join(map(str, case))})", case[-1]) as expect:
            expected, got = right_finish_time(*case), finish_time(*case)
            expect.number(got, "a moment, as a number")
            think = _think_of_failure_clock(*case)
            expect(got == expected, got=f"{got} instead of {expected:g}", think=think)


def _think_of_failure_clock(work, every, save, restart, failures: list) -> str:
    if not failures:
        return (
            "what takes time without a failure: the work, and a save after each "
            f"{every} seconds of it, not after the last"
        )
    if len(failures) == 1:
        [failure] = failures
        saved = every * min(failure // (every + save), (work - 1) // every)
        told = f"{saved} seconds of work are saved, and training goes on at "
        told += f"{failure + restart}"
        if right_finish_time(work, every, save, restart, []) < failure:
            told = "all the work is done"
        return f"the failure at {failure}: by then {told}"
    return (
        f"the failures at {failures[-2]} and {failures[-1]}: what was complete by "
        "then, and from which failure the restart counts"
    )
