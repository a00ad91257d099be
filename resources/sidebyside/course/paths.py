"""Paths by goal, and the one reader of their pages: what to do where, in which order.

A path is a page in `resources/paths` with a title and one table whose head is `HEAD`:
each row is a step. Its first link leads to a lesson's heading or to another page, and
exercises stand in backticks.

    # Eight GPUs tomorrow

    | minutes | where | what you do there |
    |---|---|---|
    | 6 | [10a, The hang](../../lessons/10a_collectives.ipynb#The-hang) | guess, run |
    | 15 | exercise `11a-step` in [11a](../../lessons/11a_the_same_training.ipynb) | … |
"""

import posixpath
import re
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

from sidebyside.course.lesson_format import EXERCISE, number_of
from sidebyside.course.record import ROOT

FOLDER = "resources/paths"
HEAD = "| minutes | where | what you do there |"
TABLE = re.compile(
    rf"^{re.escape(HEAD)}\n\|[-:| ]+\n((?:\|.*(?:\n|\Z))+)", re.MULTILINE
)
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


class Step(NamedTuple):
    minutes: int
    where: str  # "10a, The hang"
    text: str  # what you do there
    link: str  # "lessons/10a_….ipynb#The-hang", from the course's folder, or ""
    lesson: str | None  # "10a", None for another page
    heading: str  # "The-hang", as in the link, or ""
    exercises: tuple[str, ...]


class CoursePath(NamedTuple):
    name: str  # "eight_gpus_tomorrow", of the page's file
    title: str
    steps: list[Step]

    @property
    def minutes(self) -> int:
        return sum(step.minutes for step in self.steps)


def paths() -> list[CoursePath]:
    """Every path of the course, the shortest first."""
    pages = sorted((ROOT / FOLDER).glob("*.md"))
    found = [parse_path(page.stem, page.read_text(encoding="utf-8")) for page in pages]
    return sorted((path for path in found if path.steps), key=lambda path: path.minutes)


def parse_path(name: str, text: str) -> CoursePath:
    """A path from its page; one without steps if the page has no such table."""
    title = re.search(r"^# +(.+?)\s*$", text, re.MULTILINE)
    table = TABLE.search(text)
    rows = re.findall(r"^\|(.*)\|\s*$", table[1] if table else "", re.MULTILINE)
    cells = [re.split(r"(?<!\\)\|", row) for row in rows]
    steps = [_parse_step(*map(str.strip, row)) for row in cells]
    return CoursePath(name, title[1] if title else name, steps)


def _parse_step(minutes: str, where: str, text: str) -> Step:
    link = LINK.search(where)
    page, _, heading = link[2].partition("#") if link else ("", "", "")
    if page and "://" not in page:
        page = posixpath.normpath(posixpath.join(FOLDER, page))
    coded = re.findall(r"`([^`]+)`", f"{where} {text}")
    return Step(
        int(minutes),
        LINK.sub(r"\1", where),
        LINK.sub(r"\1", text),
        f"{page}#{heading}" if heading else page,
        number_of(PurePosixPath(page).stem) or None,
        unquote(heading),
        tuple(code for code in coded if EXERCISE.fullmatch(code)),
    )
