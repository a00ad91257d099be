"""The learner's own copies of the lessons: what an update replaces, and what it keeps.

A copy that the learner has not changed is replaced when the course has a newer lesson;
a changed one is kept. *Changed* means: some cell's text or code is not what was copied.
Running cells, or opening a notebook, writes outputs, metadata and perhaps an empty cell
at the end: no change. What was copied is recorded beside the copies: a hash of each
lesson's cells. What is no notebook, such as one with the marks of a conflict in git, is
not copied.

What is replaced or removed is kept all the same, in a folder: a learner may have edited
the course's own file, of which the copy was made.

A changed copy that names modules by old names would not run any more: only these names
are rewritten in it, as `moved` has them.
"""

import contextlib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from sidebyside.course.lesson_format import is_numbered, number_of
from sidebyside.course.moved import rewritten

RECORD = ".copied.json"  # JupyterLab does not show it
REPLACED = "replaced"  # the folder, within that of the copies
HEADING = re.compile(r"^#+ +(.+)", re.MULTILINE)


class Update(NamedTuple):
    """The names of the lessons to which something has happened, by what it was."""

    new: list[str]
    replaced: list[str]
    kept: list[str]  # changed by the learner, and since then by the course
    removed: list[str]  # no longer in the course, never changed by the learner
    left: list[str]  # changed by the learner, and from now on not in the course
    renamed: list[str]  # changed by the learner, with old names of modules: rewritten
    skipped: list[str]  # not a notebook in the course, or not a file among the copies


def lesson_notebooks(folder: Path) -> list[Path]:
    """The lessons in a folder, in order; nothing else that lies there."""
    return [path for path in sorted(folder.glob("*.ipynb")) if number_of(path.stem)]


def notebooks_numbered(folder: Path, text: str) -> list[Path]:
    """Those that `text` asks for."""
    paths = lesson_notebooks(folder)
    return [path for path in paths if is_numbered(number_of(path.stem), text)]


def update_own_copies(course: Path, own: Path) -> Update:
    """Bring the lessons of the folder `course` into the folder `own`."""
    copied = read_copied(own)
    update = Update(*([] for _ in Update._fields))
    lessons = lesson_notebooks(course)
    for lesson in lessons:
        copy, then = own / lesson.name, copied.get(lesson.name)
        if not can_be_copied(lesson, copy):
            update.skipped.append(lesson.stem)
            continue
        now = hash_of(lesson)
        mine = hash_of(copy) if copy.exists() else None
        if mine not in (None, then, now):  # the learner's work
            if _rename_modules(copy, own):
                update.renamed.append(lesson.stem)
            if then != now:
                update.kept.append(lesson.stem)
            continue
        if mine != now:
            (update.replaced if mine else update.new).append(lesson.stem)
            if mine:
                keep_replaced(copy, own)
            write_whole(copy, lesson.read_bytes())
        copied[lesson.name] = now
    for name in sorted(copied.keys() - {lesson.name for lesson in lessons}):
        then, copy = copied.pop(name), own / name
        if copy.exists() and hash_of(copy) != then:
            if _rename_modules(copy, own):
                update.renamed.append(copy.stem)
            update.left.append(copy.stem)
        elif copy.exists():
            keep_replaced(copy, own)
            copy.unlink()
            update.removed.append(copy.stem)
    write_copied(own, copied)
    return update


def restore_own_copy(lesson: Path, own: Path) -> Path | None:
    """Replace one copy by the course's lesson. Returns where the learner's is kept."""
    copy, backup = own / lesson.name, None
    if copy.exists() and copy.read_bytes() != lesson.read_bytes():
        backup = _free_name(copy.with_stem(f"{copy.stem}-before-restore"))
        write_whole(backup, copy.read_bytes())
    write_whole(copy, lesson.read_bytes())
    write_copied(own, read_copied(own) | {lesson.name: hash_of(lesson)})
    return backup


def can_be_copied(lesson: Path, copy: Path) -> bool:
    """Whether the lesson is a notebook, and its copy a file or not yet there."""
    return _cells_of(lesson) is not None and (copy.is_file() or not copy.exists())


def lesson_in_hand(course: Path, own: Path) -> str | None:
    """The file name of the lesson in whose copy a cell was run last.

    JupyterLab notes the time in each cell that it runs. Where it did not, that which
    was changed last counts; before that, none is in hand.
    """
    copied = read_copied(own)

    def last_use(name: str) -> tuple[str, float]:
        copy = own / name
        times = map(_time_of_run, _cells_of(copy) or [])
        changed = hash_of(copy) != copied.get(name)
        return max(times, default=""), changed and copy.stat().st_mtime

    names = [lesson.name for lesson in lesson_notebooks(course)]
    used = {name: last_use(name) for name in names if (own / name).is_file()}
    return max((n for n in used if any(used[n])), key=used.__getitem__, default=None)


def heading_in_hand(copy: Path) -> str:
    """The heading above the cell that was run last, or ""."""
    heading, latest = "", ("", "")
    for cell in _cells_of(copy) or []:
        heading = _heading_of(cell) or heading
        if (time := _time_of_run(cell)) > latest[0]:
            latest = time, heading
    return latest[1]


def new_sections(lesson: Path, copy: Path) -> list[str]:
    """The headings under which the lesson has a cell that the copy never had.

    A cell that the learner has changed keeps its id, which was made of its source.
    """
    had = {
        part
        for cell in _cells_of(copy) or []
        for part in (cell.get("id"), _source(cell))
    }
    heading, found = "", []
    for cell in _cells_of(lesson) or []:
        heading = _heading_of(cell) or heading
        if had.isdisjoint([cell.get("id"), _source(cell)]) and heading not in found:
            found.append(heading)
    return found


def has_copies(own: Path) -> bool:
    """Whether lessons were copied there before."""
    return (own / RECORD).is_file()


def hash_of(notebook: Path) -> str:
    """A hash of the kinds and sources of filled cells; else of the file's bytes."""
    if (cells := _cells_of(notebook)) is not None:
        filled = [(c["cell_type"], _source(c)) for c in cells if _source(c).strip()]
        text = json.dumps(filled).encode()
    else:
        text = notebook.read_bytes() if notebook.is_file() else b""
    return hashlib.sha256(text).hexdigest()


def _cells_of(notebook: Path) -> list[dict] | None:
    """None if this is no notebook of format 4."""
    if notebook.is_file():  # a FIFO would be waited for
        with contextlib.suppress(ValueError):
            match json.loads(notebook.read_bytes()):
                case {"nbformat": 4, "cells": [*cells]} if all(map(_is_cell, cells)):
                    return cells
    return None


def _is_cell(cell: object) -> bool:
    match cell:
        case {"cell_type": str(), "metadata": dict(), "source": str() | list()}:
            return True
    return False


def _source(cell: dict) -> str:
    return "".join(cell["source"])


def _heading_of(cell: dict) -> str:
    is_text = cell["cell_type"] == "markdown"
    found = HEADING.search(_source(cell)) if is_text else None
    return found[1] if found else ""


def _time_of_run(cell: dict) -> str:
    return cell["metadata"].get("execution", {}).get("iopub.execute_input", "")


def _rename_modules(copy: Path, own: Path) -> bool:
    """Write the modules' new names into the cells. True if there were old ones."""
    if _cells_of(copy) is None:
        return False
    notebook = json.loads(copy.read_bytes())
    old = [_source(cell) for cell in notebook["cells"]]
    new = [rewritten(source) for source in old]
    if new == old:
        return False
    keep_replaced(copy, own)
    for cell, source in zip(notebook["cells"], new, strict=True):
        cell["source"] = source.splitlines(keepends=True)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    write_whole(copy, text.encode())
    return True


def keep_replaced(copy: Path, own: Path) -> None:
    write_whole(_free_name(own / REPLACED / copy.name), copy.read_bytes())


def _free_name(wanted: Path) -> Path:
    """That path, or with -2, -3 … as there are some already."""
    free, count = wanted, 1
    while os.path.lexists(free):  # nothing is written through a link
        count += 1
        free = wanted.with_stem(f"{wanted.stem}-{count}")
    return free


def write_whole(path: Path, content: bytes) -> None:
    """Never half a file, nor one left beside it, and not through a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)  # it may be a link, too
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_copied(own: Path) -> dict[str, str]:
    """Without a record, whatever differs from the course counts as the learner's."""
    with contextlib.suppress(OSError, ValueError):
        copied = json.loads((own / RECORD).read_text(encoding="utf-8"))
        if isinstance(copied, dict):
            return copied
    return {}


def write_copied(own: Path, copied: dict[str, str]) -> None:
    write_whole(own / RECORD, json.dumps(copied, indent=1).encode())
