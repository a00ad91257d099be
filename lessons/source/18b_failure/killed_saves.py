"""Processes that call an answer's save, and are killed at each change of the disk."""

import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import torch

from parallel_by_hand.checkpoints.atomic_file import load_checkpoint
from parallel_by_hand.failures.killed_writers import limit_file_size
from sidebyside.exercises.rank_trials import patience
from sidebyside.programs.run_program import end_with_parent
from sidebyside.ranks.by_value import packed
from sidebyside.ranks.launch import context_of_ranks

CHANGES = "open", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate"
BYTES = 1_000, 79_000  # of about 80 KB


def saved_state(number: int) -> dict:
    """About 80 KB, all of which say which state it is."""
    return {"number": number, "weights": torch.full((10_000,), number)}


class SaveCase(NamedTuple):
    """One call: in a folder with or without an old checkpoint, and how it is killed."""

    name: str = "step.10"
    old: bool = True
    kill_at: int | None = None  # the number of the change before which it dies
    most: int | None = None  # or, from there on, bytes of a file, beyond which it dies


class NotesOfSave(NamedTuple):
    """What one call did in its folder, as its own process saw it."""

    is_stub: bool
    error: str  # what was raised, or nothing
    changes: list[str]  # the audit events of the disk, in order
    renamed: list[tuple[str, str]]  # (from, to) of each new name
    synced_before_name: bool


class SaveFound(NamedTuple):
    case: SaveCase
    notes: NotesOfSave | None  # None if it was killed
    left: str  # "old", "new", "none" or "broken"
    others: list[str]  # other files in its folder
    again: str  # what a killed one's file is after one more call, which nobody kills


class SaveWatchedOnDisk:
    """Counts the changes of a folder by audit events, and may kill at one of them."""

    def __init__(self, folder: Path, kill_at: int | None, most: int | None):
        self.folder = os.path.realpath(folder)
        self.kill_at, self.most = kill_at, most
        self.active, self.changes, self.renamed, self.synced = False, [], [], []
        self.synced_before_name = True
        sys.addaudithook(self.hear)
        import posix

        self.fsync = posix.fsync
        for module in (os, posix):
            module.fsync = module.fdatasync = self.note_sync

    def note_sync(self, file) -> None:
        number = file if isinstance(file, int) else file.fileno()
        self.fsync(number)
        found = os.fstat(number)
        self.synced.append((found.st_ino, found.st_size))

    def hear(self, event: str, args: tuple) -> None:
        if not self.active or event not in CHANGES:
            return
        if event == "open" and not self.opens_to_write(*args):
            return
        if len(self.changes) == self.kill_at:
            if self.most is None:
                os.kill(os.getpid(), signal.SIGKILL)
            limit_file_size(self.most)
        self.changes.append(event)
        if event == "os.rename":
            source, target = (os.path.realpath(os.fspath(path)) for path in args[:2])
            self.renamed.append((source, target))
            try:
                found = os.stat(source)
            except OSError:
                return
            if (found.st_ino, found.st_size) not in self.synced:
                self.synced_before_name = False

    def opens_to_write(self, path, mode, flags) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        where = os.path.realpath(os.fsdecode(path))
        in_tree = where.startswith(self.folder + os.sep)
        return in_tree and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def call_save(sent: bytes, path: Path, case: "SaveCase", outbox) -> None:
    """Runs in a process: call the save once; perhaps it is killed meanwhile."""
    end_with_parent()
    tempfile.tempdir = str(path.parents[1])  # what is left there goes with all else
    watch = SaveWatchedOnDisk(path.parent, case.kill_at, case.most)
    save, is_stub, error = pickle.loads(sent), False, ""
    if case.kill_at is None and case.most is not None:
        limit_file_size(case.most)
    watch.active = True
    try:
        save(saved_state(2), path)
    except NotImplementedError:
        is_stub = True
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    watch.active = False
    told = watch.changes, watch.renamed, watch.synced_before_name
    outbox.send((is_stub, error, *told))
    os._exit(0)


def try_saves(save: Callable, cases: list[SaveCase]) -> list[SaveFound]:
    """All cases at the same time, each in a folder and a process of its own."""
    sent = packed(save)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, str(n), case.name) for n, case in enumerate(cases)]
        for path, case in zip(paths, cases, strict=True):
            path.parent.mkdir()
            if case.old:
                torch.save(saved_state(1), path)
        notes = _run_saves(sent, paths, cases)
        found = [
            SaveFound(
                case,
                noted,
                saved_state_in(path),
                sorted({other.name for other in path.parent.iterdir()} - {path.name}),
                "",
            )
            for case, noted, path in zip(cases, notes, paths, strict=True)
        ]
        killed = [n for n, noted in enumerate(notes) if noted is None and cases[n].most]
        calm = [cases[n]._replace(kill_at=None, most=None) for n in killed]
        _run_saves(sent, [paths[n] for n in killed], calm)
        for n in killed:
            found[n] = found[n]._replace(again=saved_state_in(paths[n]))
        return found


def _run_saves(sent: bytes, paths: list[Path], cases: list[SaveCase]) -> list:
    """The notes of each call, or None of one that was killed."""
    context, crew = context_of_ranks(), []
    try:
        for path, case in zip(paths, cases, strict=True):
            inbox, outbox = context.Pipe(duplex=False)
            args = sent, path, case, outbox
            process = context.Process(target=call_save, args=args, daemon=True)
            process.start()
            outbox.close()
            crew.append((process, inbox))
        deadline = monotonic() + patience()  # for all calls at once
        return [_notes_of_save_in(inbox, deadline) for _, inbox in crew]
    finally:
        for process, inbox in crew:
            process.kill()
            process.join()
            inbox.close()


def _notes_of_save_in(inbox, deadline: float) -> NotesOfSave | None:
    if not inbox.poll(max(0, deadline - monotonic())):
        said = f"it has not ended after {patience():g} s"
        return NotesOfSave(False, said, [], [], True)
    try:
        return NotesOfSave(*inbox.recv())
    except EOFError:
        return None


def saved_state_in(path: Path) -> str:
    """ "old" or "new" for a whole checkpoint, "none" for no file, else "broken"."""
    if not path.exists():
        return "none"
    try:
        saved = load_checkpoint(path)
        whole = set(saved) == {"number", "weights"}
        whole = whole and bool((saved["weights"] == saved["number"]).all())
        whole = whole and len(saved["weights"]) == 10_000
        return {1: "old", 2: "new"}[saved["number"]] if whole else "broken"
    except Exception:
        return "broken"
