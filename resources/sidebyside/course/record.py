"""The learner's record: guesses, states of exercises, hints and time, in one file.

The file is `.sidebyside/progress.json` in the project, or what the environment
variable SIDEBYSIDE_PROGRESS names: so several learners may share one account, or one
copy of the course that they cannot write to. Two kernels may use it at once: a change
is made under a lock, and the file is replaced as a whole. A file that cannot be read is
put aside; where nothing can be written the record lives in memory. Both are said once.

The time spent is the time between changes, of which each guess, measurement, check and
hint is one. A longer gap than `PAUSE` counts nothing.
"""

import contextlib
import copy
import functools
import glob
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import RLock

ROOT = Path(__file__).resolve().parents[3]
PAUSE = 30  # minutes

_lock = RLock()  # among the threads of this process
_in_memory: dict[Path, dict] = {}  # records of files that cannot be written


def record_file() -> Path:
    """The file that holds the record."""
    named = os.environ.get("SIDEBYSIDE_PROGRESS", "")
    return _absolute(named) if named else ROOT / ".sidebyside" / "progress.json"


@functools.cache  # the first folder counts, if the program moves to another
def _absolute(named: str) -> Path:
    return Path(named).expanduser().absolute()


def read_record() -> dict:
    """The record: {"exercises": {id: {...}}, "guesses": {id: {...}}, "course": {...}}.

    "course" has "time", with "seconds" and when the "last" of them was; "path", with
    the "name" of the one that the learner has chosen; and for each path what is "done".
    """
    path = record_file()
    with _lock:
        if path in _in_memory:
            return copy.deepcopy(_in_memory[path])
        return _load_record(path)


@contextlib.contextmanager
def changed_record() -> Iterator[dict]:
    """`with changed_record() as record:` change it; it is written at the end."""
    path = record_file()
    with _lock:
        if path in _in_memory:
            yield _in_memory[path]
            _count_time(_in_memory[path])
            return
        with _locked_folder_of_record(path.parent):
            record = _load_record(path)
            yield record
            _count_time(record)
            try:
                _replace_record(path, record)
            except OSError:
                _in_memory[path] = record
                print(
                    f"Your progress cannot be written to {_record_shown(path)}, and is "
                    f"kept until this kernel ends: let the environment variable "
                    f"SIDEBYSIDE_PROGRESS name a file of yours."
                )


def _count_time(record: dict) -> None:
    """Add the seconds since the last change, unless there was a pause."""
    spent = record["course"].setdefault("time", {"seconds": 0, "last": 0})
    now = round(time.time())
    gap = now - spent["last"]
    if 0 < gap <= PAUSE * 60:
        spent["seconds"] += gap
    spent["last"] = now


def _load_record(path: Path) -> dict:
    """The record in the file; a new one where there is none or it is broken."""
    try:
        if path.is_file():  # perhaps a folder, or /dev/null
            return parse_record(path.read_text(encoding="utf-8"))
    except OSError:
        pass
    except ValueError:
        _put_broken_record_aside(path)
    return parse_record("{}")


def parse_record(text: str) -> dict:
    """The record from its file's text; a ValueError if it is no record."""
    try:
        record = json.loads(text)
    except RecursionError:
        record = None
    if isinstance(record, dict):
        record = {part: record.get(part, {}) for part in _PARTS}
        tables = [table for table in record.values() if isinstance(table, dict)]
        entries = [entry for table in tables for entry in table.values()]
        if len(tables) == len(_PARTS) and all(map(_is_entry_of_record, entries)):
            return record
    raise ValueError("no record of progress")


_PARTS = "exercises", "guesses", "course"
_KINDS = {"state": str, "tries": int, "hints": int, "question": str, "unit": str}
_KINDS |= {"value": int | float | None, "measured": int | float}
_KINDS |= {"computed": bool, "simulated": bool, "advice": str}
_KINDS |= {"seconds": int, "last": int, "name": str, "done": int}


def _is_entry_of_record(entry: object) -> bool:
    """Whether it has what this course has written, or nothing."""
    return isinstance(entry, dict) and all(
        isinstance(entry[key], kind) for key, kind in _KINDS.items() if key in entry
    )


def _put_broken_record_aside(path: Path) -> None:
    """Rename a broken file, so that nothing is lost, and say so."""
    copy_name = _free_name_beside(path, "unreadable")
    with contextlib.suppress(OSError):
        os.replace(path, copy_name)
        print(
            f"{_record_shown(path)} could not be read. It is now {copy_name.name}, "
            f"and your progress starts anew."
        )


def keep_copy_of_record(record: dict) -> str:
    """Write a copy beside the record's file, and return its name; "" where none is."""
    path = record_file()
    if not path.is_file():
        return ""
    copy_name = _free_name_beside(path, "before-reset")
    try:
        _replace_record(copy_name, record)
    except OSError:
        return ""
    return _record_shown(copy_name)


def _free_name_beside(path: Path, what: str) -> Path:
    """progress-what.json, progress-what-2.json …; of nine the last is overwritten."""
    names = [path.with_name(f"{path.stem}-{what}.json")]
    names += [path.with_name(f"{path.stem}-{what}-{n}.json") for n in range(2, 10)]
    return next((name for name in names if not name.exists()), names[-1])


def _replace_record(path: Path, record: dict) -> None:
    """Write a new file beside the old one and rename it: never half a file."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no file")  # such as /dev/null
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_unfinished_record(path)
    handle, new = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".new")
    try:
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(record, file, indent=1, ensure_ascii=False, sort_keys=True)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def _remove_unfinished_record(path: Path) -> None:
    """Those of a process that was killed while it wrote; not of one that writes."""
    for left in path.parent.glob(f"{glob.escape(path.stem)}*.new"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < time.time() - 60:
                left.unlink()


@contextlib.contextmanager
def _locked_folder_of_record(folder: Path) -> Iterator[None]:
    """One process at a time. The folder itself is locked: no lock file stays behind.

    Where folders cannot be locked (Windows, some network disks) the last one wins.
    """
    handle = None
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        give_up = time.monotonic() + 5
        while time.monotonic() < give_up:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _record_shown(path: Path) -> str:
    """A path inside the project is shown from the project's root."""
    try:
        return path.relative_to(ROOT).as_posix()
    except ValueError:
        return str(path)
