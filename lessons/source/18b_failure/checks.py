"""The checks of lesson 18b: an atomic save, a training that goes on, the clock."""

import math
import os
import random
import tempfile
from pathlib import Path

from parallel_by_hand.failures.failure_clock import finish_time as right_finish_time
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.expectations import NotStarted
from sidebyside.exercises.rank_trials import run_trial

from .killed_saves import (
    BYTES,
    NEIGHBOURS,
    UNFINISHED_OF_OTHERS,
    SaveCase,
    SaveFound,
    try_saves,
)
from .resumed_programs import (
    AFTER,
    MOMENTS,
    WHERE,
    RestoreNotes,
    SnapshotNotes,
    try_restores,
    try_snapshots,
)

# 18b-save -----------------------------------------------------------------------------

NAMES = "step.10", "step.20", "model"


@exercise("18b-save", in_ranks=True, when_hung="which line never ends")
def check_18b_save(save_checkpoint):
    calm = [SaveCase(name) for name in NAMES]
    calm += [SaveCase(old=False), SaveCase(fails=True)]
    with trying("save_checkpoint(state, path)"):
        *whole, failed = try_saves(save_checkpoint, calm)
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
    _expect_save_error_passed_on(failed)


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
        if notes.end == "stub":
            raise NotStarted
        think = "which line says this; `path` is a pathlib.Path, whose folder exists"
        if notes.end == "endless":
            think = "which line never ends"
        expect(not notes.error, got=notes.error, think=think)
        expect(
            found.left == "new",
            got=IN_PLACE_OF_NEW.get(found.left),
            think="what lies at `path` when your function has returned",
        )
        expect(
            notes.same_state,
            got="another `state` than before",
            think="who else uses what your function was given",
        )
        _expect_neighbours_of_checkpoint(expect, found)
        debris = sorted(set(found.files) - set(NEIGHBOURS))
        expect(
            not debris,
            got=f"{debris[0] if debris else ''} was left in the folder",
            think="what becomes of the second file when all has gone well",
        )


IN_PLACE_OF_NEW = {
    "none": "no file at `path`",
    "old": "the old checkpoint",
    "broken": "a file that torch.load does not read as `state`",
}


def _expect_neighbours_of_checkpoint(expect, found: SaveFound) -> None:
    for name, text in NEIGHBOURS.items():
        expect(
            found.files.get(name) == text,
            got=f"another file of the folder, {name}, was changed",
            think="whose file this may be: another process saves to `step.9` just now"
            if name in UNFINISHED_OF_OTHERS
            else "which names your function may use: think of `step.9` and `step`",
        )


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
        _expect_neighbours_of_checkpoint(expect, found)
        expect(
            found.again in ("", "new"),
            got="not the new checkpoint, after one more call",
            think="an unfinished file that a kill has left: does the next call mind?",
        )


def _expect_way_of_save(found: SaveFound) -> None:
    """By which steps it got there: a second file, in the same folder, synchronised."""
    with trying(f"save_checkpoint(state, folder / {found.case.name!r})") as expect:
        names = [
            pair
            for pair in found.notes.renamed
            if _is_path_of_save(pair[1], found.case.name)
        ]
        expect(
            names,
            got="`path` was never given to a complete second file",
            think="the one step of the file system that replaces a file",
        )
        expect(
            all(os.path.dirname(a) == os.path.dirname(b) for a, b in names),
            got="the second file was in another folder",
            think="where the second file is: the new name is one step only if it lies "
            "in the same folder, on the same disk",
        )
        expect(
            found.notes.synced_before_name,
            got="the second file got its name before all its bytes were on the disk",
            think="a power cut behind this line: which two calls bring all bytes to "
            "the disk, and when",
        )


def _is_path_of_save(path: str, name: str) -> bool:
    return os.path.basename(path) == name


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


def _expect_save_error_passed_on(found: SaveFound) -> None:
    with trying("save_checkpoint of what torch.save cannot write") as expect:
        expect(
            found.left == "old",
            got="the old checkpoint is gone" if found.left == "none" else found.left,
            think="what your function does when torch.save raises an error",
        )
        expect(
            found.notes is not None and "cannot be saved" in found.notes.error,
            got="no error, as if all had gone well",
            think="who learns that nothing was saved",
        )


# 18b-resume ---------------------------------------------------------------------------


@exercise(
    "18b-resume", in_ranks=True, when_hung="whether a snapshot sends anything, to whom"
)
def check_18b_resume(snapshot, restore):
    for ranks in (2, 1):
        with tempfile.TemporaryDirectory() as folder:
            with trying(f"snapshot(training) in {ranks} ranks"):
                taken = run_trial(try_snapshots, snapshot, Path(folder), ranks=ranks)
            for rank, of_rank in enumerate(taken):
                for moment, notes in zip(MOMENTS, of_rank, strict=True):
                    _expect_snapshot(rank, ranks, moment, notes)
            with trying(f"restore(training, saved) in {ranks} ranks"):
                given = run_trial(try_restores, restore, Path(folder), ranks=ranks)
            for moment, notes in zip(MOMENTS, zip(*given, strict=True), strict=True):
                _expect_restored_parts(moment, notes)
                _expect_resumed_training(moment, notes)


def _expect_snapshot(rank: int, ranks: int, moment: int, notes: SnapshotNotes) -> None:
    with trying(
        f"snapshot(training) {WHERE[moment]}, rank {rank} of {ranks}"
    ) as expect:
        expect(
            notes.is_dictionary,
            got=notes.kind,
            think="what is asked for: a dictionary",
        )
        expect(
            not notes.unreadable,
            got=f"what torch.load(weights_only=True) refuses: {notes.unreadable}",
            think="of what kinds of values a file may be made that runs no code",
        )
        _expect_snapshot_sends_nothing(expect, notes.called)
        expect(
            not notes.disturbed,
            got="other random numbers, for everyone else or for this training",
            think="whether taking a snapshot draws or sets anything",
        )
        expect(
            notes.stays,
            got="a snapshot that changes while its training goes on",
            think="whose tensors are in it, and what the next step does to them",
        )


def _expect_snapshot_sends_nothing(expect, called: list[str]) -> None:
    expect(
        not called,
        got=f"a call of {called[0] if called else ''}",
        think="whose state this rank's snapshot holds, and who else calls it just now",
    )


def _expect_restored_parts(moment: int, of_ranks: tuple[RestoreNotes, ...]) -> None:
    """Right after `restore`, on all ranks, before anything is said of later steps."""
    for rank, notes in enumerate(of_ranks):
        call = f"restore(training, saved) {WHERE[moment]}, rank {rank}"
        with trying(f"{call} of {len(of_ranks)}") as expect:
            _expect_snapshot_sends_nothing(expect, notes.called)
            expect(
                not notes.disturbed,
                got="other random numbers for everyone else",
                think="which generators are this training's own",
            )
            for part, think in THINK_OF_PARTS.items():
                came_back = f"another {part} than saved"
                expect(part not in notes.differ, got=came_back, think=think)


def _expect_resumed_training(moment: int, of_ranks: tuple[RestoreNotes, ...]) -> None:
    for rank, notes in enumerate(of_ranks):
        call = f"restore(training, saved) {WHERE[moment]}, rank {rank}"
        with trying(f"{call} of {len(of_ranks)}") as expect:
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
            expect(
                notes.again,
                got="something else when it was restored a second time",
                think="whether `saved` is still what it was after the first time",
            )


THINK_OF_PARTS = {
    "model": "whose parameters the next step begins with",
    "optimizer": "what the optimiser remembers: momentum, and its rate",
    "order": "the images of this epoch, in their order: it has been drawn already",
    "used": "how many images of this epoch have been used",
    "step": "the number of the step",
    "shuffle": "the generator that draws the order of the next epoch",
    "noise": "the generator that draws what is dropped, this rank's own",
}

# 18b-clock ----------------------------------------------------------------------------


def _failure_clock_cases() -> list[tuple]:
    """By hand, at edges, many drawn ones, and one that is long."""
    cases = [(8, 4, 1, 2, []), (10, 4, 1, 2, []), (10, 4, 1, 2, [7, 8])]
    edges = [5], [4], [6], [7], [9], [10], [1, 2, 3, 4, 5, 6], [5, 7, 9, 14, 40]
    cases += [(8, 4, save, 2, moments) for save in (0, 1, 3) for moments in edges]
    cases += [(3, 9, 5, 1, []), (1, 1, 0, 0, [1]), (1, 1, 0, 5, [2])]
    cases += [(6, 2, 1, 10, [5, 7, 9, 14, 40]), (6, 2, 1, 4, [1, 5, 9])]
    drawn = random.Random(18)
    for _ in range(60):
        work, every = drawn.randint(1, 40), drawn.randint(1, 12)
        moments = sorted(drawn.sample(range(1, 120), drawn.randint(0, 12)))
        cases.append((work, every, drawn.randint(0, 3), drawn.randint(0, 6), moments))
    moments = sorted(drawn.sample(range(1, 3_000_000), 1000))
    too_often = list(range(999_999, 999_999_999, 999_999))  # nothing is ever saved
    cases += [(10**6, 10**6, 5, 5, too_often), (10**6, 10**7, 5, 5, [])]
    return [*cases, (1_000_000, 700, 30, 400, moments)]


@exercise(
    "18b-clock",
    when_hung="what happens when nothing is saved between failures, and how often your "
    "loop turns: once for each second is too often",
)
def check_18b_clock(finish_time):
    for work, every, save, restart, failures in _failure_clock_cases():
        shown = failures if len(failures) < 20 else f"{len(failures)} failures"
        case = work, every, save, restart, list(failures)
        expected = right_finish_time(*case)
        with trying(
            f"finish_time({work}, {every}, {save}, {restart}, {shown})", failures
        ) as expect:
            got = finish_time(work, every, save, restart, failures)
            expect(
                as_number(got) is not None,
                got="None" if got is None else got,
                think="what is asked for: a moment, as a number",
            )
            expect(got == expected, got=got, think=_think_of_failure_clock(case, got))


def _think_of_failure_clock(case: tuple, got) -> str:
    """The mistake that gives this very number, if we know it."""
    work, every, save, _, failures = case
    segments = math.ceil(work / every)
    if not failures:
        if got == work + segments * save:
            return "whether anything is saved after the last second of work"
        if got == work:
            return "how long training waits for each checkpoint"
        return "after which seconds of work it saves, and that it ends without saving"
    if got == right_finish_time(*case[:4], []):
        return "what a failure costs"
    if got == right_finish_time(*case[:3], 0, failures):
        return "when training goes on after a failure"
    return (
        "what is saved when this failure comes: only what was complete by then; and "
        "from which moment the restart counts"
    )
