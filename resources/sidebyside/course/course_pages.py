"""The course's pages and pictures beside the learner's copies in another folder.

A lesson's links lead to ../demos and ../resources, so these must be there. Pages and
pictures are copied: Jupyter's server sends no picture from outside, and JupyterLab
keeps a checkpoint beside each page that it opens. Only what was written here is
overwritten: a hash of each page is recorded, as for the copies of the lessons.
"""

import hashlib
import os
from pathlib import Path

from sidebyside.course import own_copies

COPIED = "README.md", "resources/figures/*.*", "resources/workshop/*.md"
COPIED += "resources/paths/*.md", "resources/checklists/*.md"
LINKED = "demos", "lessons", "solutions"
NOTES = ".sidebyside"  # the folder of the learner's progress, and of the record


def things_of_others(course: Path, home: Path) -> list[str]:
    """What lies in `home` where this would write, and was not written by it.

    A link always is: nothing is written through one. For the rest, a folder that has
    copies of the lessons is known to be the learner's.
    """
    pages = _pages_of_course(course)
    found = [page for page in pages if _lies_behind_link(home, page)]
    if not own_copies.has_copies(home / "my_lessons"):
        found += [page for page in pages if _differs(home / page, course / page)]
        found += [Path(n) for n in LINKED if _differs(home / n, course / n)]
    return [path.as_posix() for path in dict.fromkeys(found)]


def bring_pages(course: Path, home: Path) -> None:
    """Copy the new pages, and those that the learner has not changed."""
    pages = _pages_of_course(course)
    write_pages(home, {p.as_posix(): (course / p).read_bytes() for p in pages})


def write_pages(home: Path, pages: dict[str, bytes]) -> None:
    """Write pages, by their paths in `home`, that the learner has not changed."""
    written = own_copies.read_copied(home / NOTES)
    for name, content in pages.items():
        copy, now = home / name, hashlib.sha256(content).hexdigest()
        mine = own_copies.hash_of(copy) if copy.exists() else None
        if mine not in (None, now, written.get(name)):
            continue
        if mine != now:
            own_copies.write_whole(copy, content)
        written[name] = now
    own_copies.write_copied(home / NOTES, written)


def link_course(course: Path, home: Path) -> bool:
    """Whether the links are there: Windows asks for a right that few people have."""
    for link, target in [(home / name, course / name) for name in LINKED]:
        if link.is_symlink() and not link.exists():  # the course has moved
            link.unlink()
        if not link.exists():
            try:
                link.symlink_to(target, target.is_dir())
            except OSError:
                return False
    return True


def _pages_of_course(course: Path) -> list[Path]:
    """Their paths within the course."""
    found = [page for pattern in COPIED for page in sorted(course.glob(pattern))]
    return [page.relative_to(course) for page in found]


def _lies_behind_link(home: Path, page: Path) -> bool:
    return any((home / part).is_symlink() for part in (page, *page.parents[:-1]))


def _differs(there: Path, ours: Path) -> bool:
    """Whether something is there, and not the same."""
    if there.is_file() and ours.is_file():
        return own_copies.hash_of(there) != own_copies.hash_of(ours)
    return os.path.lexists(there) and not (there.exists() and there.samefile(ours))
