"""The learner's own copies of the lessons: what an update replaces, and what it keeps.

A copy that the learner has not changed is replaced when the course has a newer lesson;
a changed one is kept. *Changed* means: some cell's text or code is not what was copied.
Running cells, or opening a notebook, writes outputs and metadata only: no change. What
was copied is recorded beside the copies: a hash of the cells of each lesson.

What is replaced or removed is kept all the same, in a folder: a learner may have edited
the course's own file, of which the copy was made.

A changed copy that names modules by old names would not run any more: only these names
are rewritten in it, as `moved` has them.
"""

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from sidebyside.course.lesson_format import is_numbered, number_of
from sidebyside.course.moved import rewritten

RECORD = ".copied.json"  # JupyterLab does not show it
REPLACED = "replaced"  # the folder, within that of the copies


class Update(NamedTuple):
    """The names of the lessons to which something has happened, by what it was."""

    new: list[str]
    replaced: list[str]
    kept: list[str]  # changed by the learner, and since then by the course
    removed: list[str]  # no longer in the course, never changed by the learner
    left: list[str]  # changed by the learner, and from now on not in the course
    renamed: list[str]  # changed by the learner, with old names of modules: rewritten


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
    update = Update([], [], [], [], [], [])
    lessons = lesson_notebooks(course)
    for lesson in lessons:
        copy, then, now = own / lesson.name, copied.get(lesson.name), hash_of(lesson)
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
            copy_whole(lesson, copy)
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
        shutil.copyfile(copy, backup)
    copy_whole(lesson, copy)
    write_copied(own, read_copied(own) | {lesson.name: hash_of(lesson)})
    return backup


def copy_in_hand(course: Path, own: Path) -> Path:
    """The copy that the learner has changed last; before that, the first."""
    copied = read_copied(own)
    copies = [own / lesson.name for lesson in lesson_notebooks(course)]
    changed = [copy for copy in copies if hash_of(copy) != copied.get(copy.name)]
    return max(changed, key=lambda copy: copy.stat().st_mtime, default=copies[0])


def has_copies(own: Path) -> bool:
    """Whether lessons were copied there before."""
    return (own / RECORD).is_file()


def hash_of(notebook: Path) -> str:
    """A hash of the cells' kinds and sources; of the bytes if it is no notebook."""
    text = notebook.read_bytes()
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        cells = json.loads(text)["cells"]
        kinds_and_sources = [
            (cell["cell_type"], "".join(cell["source"])) for cell in cells
        ]
        text = json.dumps(kinds_and_sources).encode()
    return hashlib.sha256(text).hexdigest()


def _rename_modules(copy: Path, own: Path) -> bool:
    """Write the modules' new names into the cells. True if there were old ones."""
    try:
        notebook = json.loads(copy.read_text(encoding="utf-8"))
        old = ["".join(cell["source"]) for cell in notebook["cells"]]
    except (ValueError, KeyError, TypeError):  # no notebook
        return False
    new = [rewritten(source) for source in old]
    if new == old:
        return False
    keep_replaced(copy, own)
    for cell, source in zip(notebook["cells"], new, strict=True):
        cell["source"] = source.splitlines(keepends=True)
    unfinished = copy.with_name(f".{copy.name}.new")
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, copy)
    return True


def keep_replaced(copy: Path, own: Path) -> None:
    folder = own / REPLACED
    folder.mkdir(exist_ok=True)
    shutil.copyfile(copy, _free_name(folder / copy.name))


def _free_name(wanted: Path) -> Path:
    """That path, or with -2, -3 … as there are some already."""
    free, count = wanted, 1
    while os.path.lexists(free):  # nothing is written through a link
        count += 1
        free = wanted.with_stem(f"{wanted.stem}-{count}")
    return free


def copy_whole(lesson: Path, copy: Path) -> None:
    """Never half a file, and writable, though the course's may not be."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    unfinished = copy.with_name(f".{copy.name}.new")
    unfinished.unlink(missing_ok=True)  # else a link there would be written through
    shutil.copyfile(lesson, unfinished)
    os.replace(unfinished, copy)


def read_copied(own: Path) -> dict[str, str]:
    """Without a record, whatever differs from the course counts as the learner's."""
    with contextlib.suppress(OSError, ValueError):
        copied = json.loads((own / RECORD).read_text(encoding="utf-8"))
        if isinstance(copied, dict):
            return copied
    return {}


def write_copied(own: Path, copied: dict[str, str]) -> None:
    own.mkdir(parents=True, exist_ok=True)
    unfinished = own / f"{RECORD}.new"
    unfinished.unlink(missing_ok=True)
    unfinished.write_text(json.dumps(copied, indent=1), encoding="utf-8")
    os.replace(unfinished, own / RECORD)
