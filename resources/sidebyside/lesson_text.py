"""Exercises, hints and solutions, read from the text of `lessons/source/*.py`."""

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from sidebyside.record import ROOT

SOURCES = ROOT / "lessons" / "source"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
YOUR_TURN = 'raise NotImplementedError("your turn")'


class Cell(NamedTuple):
    kind: str  # "code" or "markdown"
    text: str
    exercise: str  # the exercise whose code this cell holds, or ""
    line: int  # of the text's first line in the source


class Hint(NamedTuple):
    title: str
    text: str


class Lesson(NamedTuple):
    path: Path
    number: str  # "03"
    title: str  # "03 The GIL"
    cells: list[Cell]

    @property
    def exercises(self) -> list[str]:
        """The ids of its exercises, in the order of the text."""
        ids = [cell.exercise for cell in self.cells if cell.exercise]
        return list(dict.fromkeys(ids))

    def code(self, id: str) -> str:
        """The exercise's code, with the solution and its markers."""
        cells = [cell.text for cell in self.cells if cell.exercise == id]
        return "\n\n".join(cells)

    def hints(self, id: str) -> list[Hint]:
        """The hints that fold open below the exercise's text."""
        folds = re.compile(
            r"<details>\s*<summary>(.*?)</summary>(.*?)</details>", re.DOTALL
        )
        found = folds.findall(self.marked("exercise", id))
        return [Hint(title.strip(), text.strip()) for title, text in found]

    def marked(self, mark: str, id: str) -> str:
        """The Markdown cell marked `<!-- mark: id -->`, without that line; or ""."""
        line = re.compile(rf"^<!--\s*{mark}:\s*{re.escape(id)}\s*-->\n?", re.MULTILINE)
        for cell in self.cells:
            if cell.kind == "markdown" and line.search(cell.text):
                return line.sub("", cell.text).strip()
        return ""


def lessons() -> list[Lesson]:
    """Every lesson that has a source, in order."""
    paths = sorted(SOURCES.glob("[0-9][0-9]_*.py"))
    return [_read(path, path.stat().st_mtime_ns) for path in paths]


def lesson_of(id: str) -> Lesson | None:
    """The lesson that holds an exercise."""
    return next((lesson for lesson in lessons() if id in lesson.exercises), None)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> Lesson:
    return parse_lesson(path, path.read_text(encoding="utf-8"))


def parse_lesson(path: Path, text: str) -> Lesson:
    """The cells of a py:percent text, as far as the exercises need them."""
    head, *rest = re.split(r"^# %%(.*)\n?", text, flags=re.MULTILINE)
    title = re.search(r"^# title:\s*(.+?)\s*$", head, re.MULTILINE)
    cells, line = [], head.count("\n") + 2
    for options, body in zip(rest[::2], rest[1::2], strict=True):
        kind = "markdown" if options.strip().startswith("[markdown]") else "code"
        exercise = re.search(r'\bexercise="([^"]*)"', options)
        content = re.sub(r"^# ?", "", body, flags=re.M) if kind == "markdown" else body
        blank = len(content) - len(content.lstrip("\n"))
        name = exercise[1] if exercise else ""
        cells.append(Cell(kind, content.strip("\n"), name, line + blank))
        line += body.count("\n") + 1
    return Lesson(path, path.name[:2], title[1] if title else path.stem, cells)


def with_solution(code: str) -> str:
    """The cell as the solution shows it: without markers, without `answer = ...`."""
    kept: list[str] = []
    for line in code.split("\n"):
        if line.strip() == BEGIN:
            while kept and re.fullmatch(r"\w+(: [^=]+)? = \.\.\..*", kept[-1]):
                kept.pop()
        elif line.strip() != END:
            kept.append(line)
    return "\n".join(kept).rstrip()
