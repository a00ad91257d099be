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
from parallel_by_hand.failures.killed_writers import limit_files
from sidebyside.exercises.rank_trials import patience
from sidebyside.programs.run_program import end_with_parent
from sidebyside.ranks.by_value import packed
from sidebyside.ranks.launch import context_of_ranks

CHANGES = "open", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate"
BYTES = 1_000, 79_000  # of about 80 KB
NEIGHBOURS = {"step.9": b"another checkpoint", "notes.txt": b"mine", "step": b""}
UNFINISHED_OF_OTHERS = [f"step.9.{end}" for end in ("unfinished", "tmp", "part")]
NEIGHBOURS |= dict.fromkeys(UNFINISHED_OF_OTHERS, b"half")  # others are saving there


def saved_state(number: int) -> dict:
    """About 80 KB, all of which say which state it is."""
    return {"number": number, "weights": torch.full((10_000,), number)}


class CannotBeSavedByTorch:
    """torch.save raises an error when it comes to this."""

    def __reduce__(self):
        raise ValueError("this cannot be saved")


class SaveCase(NamedTuple):
    """One call: in a folder with or without an old checkpoint, and how it is killed."""

    name: str = "step.10"
    old: bool = True
    kill_at: int | None = None  # the number of the change before which it dies
    most: int | None = None  # or, from there on, bytes of a file, beyond which it dies
    fails: bool = False  # torch.save raises an error


class NotesOfSave(NamedTuple):
    """What one call did in its folder, as its own process saw it."""

    end: str  # "done", "stub", "raised" or "endless"
    error: str  # what was raised, or nothing
    changes: list[str]  # the audit events of the disk, in order
    renamed: list[tuple[str, str]]  # (from, to) of each new name
    synced_before_name: bool
    same_state: bool  # after the call as before it


class SaveFound(NamedTuple):
    case: SaveCase
    notes: NotesOfSave | None  # None if it was killed
    left: str  # "old", "new", "none" or "broken"
    files: dict[str, bytes]  # all others in the folder
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
            limit_files(self.most)
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
    save, state = pickle.loads(sent), saved_state(2)
    if case.fails:
        state["bad"] = CannotBeSavedByTorch()
    if case.kill_at is None and case.most is not None:
        limit_files(case.most)
    end, error, watch.active = "done", "", True
    try:
        save(state, path)
    except NotImplementedError:
        end = "stub"
    except Exception as raised:
        end, error = "raised", f"{type(raised).__name__}: {raised}"
    watch.active = False
    same = case.fails or (all((state["weights"] == 2).tolist()) and len(state) == 2)
    told = watch.changes, watch.renamed, watch.synced_before_name
    outbox.send((end, error, *told, same))
    os._exit(0)


def try_saves(save: Callable, cases: list[SaveCase]) -> list[SaveFound]:
    """All cases at the same time, each in a folder and a process of its own."""
    sent = packed(save)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, str(n), case.name) for n, case in enumerate(cases)]
        for path, case in zip(paths, cases, strict=True):
            path.parent.mkdir()
            for name, text in NEIGHBOURS.items():
                (path.parent / name).write_bytes(text)
            if case.old:
                torch.save(saved_state(1), path)
        notes = _run_saves(sent, paths, cases)
        found = [
            SaveFound(case, noted, saved_state_in(path), _other_files_of_save(path), "")
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
        return NotesOfSave("endless", said, [], [], True, True)
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


def _other_files_of_save(path: Path) -> dict[str, bytes]:
    """All other files of the folder, and what is in them; folders too, as nothing."""
    return {
        other.name: other.read_bytes() if other.is_file() else b""
        for other in path.parent.iterdir()
        if other != path
    }
