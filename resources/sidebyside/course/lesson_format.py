"""The format of a lesson, and its one reader.

A lesson has a room, `lessons/source/NN_name/`, where NN is its number; 10a and 10b are
one lesson in two sittings. `lesson.py` in it is a text of cells, `# %%` with code and
`# %% [markdown]` with comments, below a head of `# key: value` lines. A cell may have
tags, hold the code of an exercise or draw a figure of the README:

    # %% tags=["instructor"] exercise="03-overlap" figure="name"

A Markdown cell may carry a mark, `<!-- exercise: 03-overlap -->` or
`<!-- why: 03-overlap -->`, and hints that fold open: `<details><summary>title
</summary>`, text, `</details>`. `{reading}` in it becomes the lesson's reading minutes.
"""

import ast
import math
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from sidebyside.course.record import ROOT

STUB_SAYS = "your turn"
YOUR_TURN = f'raise NotImplementedError("{STUB_SAYS}")'
NUMBER = r"\d\d[a-z]?"
ROOM = re.compile(rf"({NUMBER})_\w+")
EXERCISE = re.compile(rf"({NUMBER})-[\w-]+")

CELL = re.compile(r"^# %%(.*)\n?", re.MULTILINE)
OPTION = re.compile(r"(\w+)=(\[[^\]]*\]|\"[^\"]*\")")
MARKER = re.compile(r"^<!--\s*(exercise|why):\s*(\S+?)\s*-->[ \t]*\n?", re.MULTILINE)
HINT = re.compile(
    r"<details>\s*<summary>(.*?)</summary>\s*(.*?)\s*</details>", re.DOTALL
)
CHECKED = re.compile(r"\bcheck\(\s*[\"']([^\"']+)")
REVEALED = re.compile(r"\breveal\(\s*[\"']([^\"']+)")
HEADING = re.compile(r"^(#+) +(.+?)\s*$", re.MULTILINE)
REGION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION[ \t]*\n(.*?)^[ \t]*### END SOLUTION[ \t]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
PLACEHOLDERS = re.compile(
    r"(?:^\w+(?:: [^=\n]+)? = \.\.\.[^\n]*\n)+(?=### BEGIN SOLUTION)", re.MULTILINE
)


class Hint(NamedTuple):
    title: str  # "Hint 2: an idea"
    text: str

    @property
    def what(self) -> str:
        """ "an idea" """
        return self.title.partition(":")[2].strip() or self.title


class Cell(NamedTuple):
    kind: str  # "code" or "markdown"
    source: str  # of Markdown without comment signs
    tags: tuple[str, ...] = ()
    exercise: str = ""  # the exercise whose code this cell holds, or ""
    figure: str = ""  # the README's picture that this cell draws, or ""

    @property
    def marks(self) -> list[tuple[str, str]]:
        """("exercise", id) or ("why", id) for each mark in the text."""
        return MARKER.findall(self.source) if self.kind == "markdown" else []

    @property
    def text(self) -> str:
        """The source without marks, as readers see it."""
        return re.sub(r"\n{3,}", "\n\n", MARKER.sub("", self.source)).strip()

    @property
    def checked(self) -> list[str]:
        """The exercises that this code checks."""
        return checked_in(self.source) if self.kind == "code" else []

    @property
    def revealed(self) -> list[str]:
        """The guesses that this code sets beside a measurement."""
        return REVEALED.findall(self.source) if self.kind == "code" else []

    @property
    def headings(self) -> list[tuple[str, str]]:
        """("##", "The ring") for each heading that learners see."""
        seen = self.kind == "markdown" and "instructor" not in self.tags
        return HEADING.findall(self.source) if seen else []

    @property
    def hints(self) -> list[Hint]:
        return [Hint(title.strip(), text) for title, text in HINT.findall(self.source)]


class Lesson(NamedTuple):
    name: str  # "03_the_gil"
    head: dict[str, str]
    cells: list[Cell]

    @property
    def number(self) -> str:
        return number_of(self.name)

    @property
    def title(self) -> str:
        return self.head.get("title", self.name)

    @property
    def code_cells(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.kind == "code"]

    @property
    def exercises(self) -> list[str]:
        """The ids of its exercises, in the order of the text."""
        ids = [cell.exercise for cell in self.cells if cell.exercise]
        return list(dict.fromkeys(ids))

    @property
    def reading_minutes(self) -> int:
        """At 210 words a minute and 5 seconds a line of code, without exercises' code.

        Hints and instructors' notes do not count; it is rounded up to 5 minutes.
        """
        others = {"instructor", "why"}
        read = [c for c in self.cells if not (c.exercise or others & {*c.tags})]
        texts = [HINT.sub("", cell.text) for cell in read if cell.kind == "markdown"]
        words = len(re.findall(r"\w[\w'’-]*", " ".join(texts)))
        code = "\n".join(cell.source for cell in read if cell.kind == "code")
        lines = len(re.findall(r"^.*\S", code, re.MULTILINE))
        return 5 * math.ceil((words / 210 + lines * 5 / 60) / 5)

    def section(self, anchor: str) -> list[Cell]:
        """The cells of the section to which `#The-ring` leads; all of them for ""."""
        found, level = [], ""
        for cell in self.cells:
            for marks, title in cell.headings:
                if anchor_of(title) == anchor:
                    level = marks
                elif level and len(marks) <= len(level):
                    return found
            if level or not anchor:
                found.append(cell)
        return found

    def code(self, id: str) -> str:
        """The exercise's code, with the solution and its markers."""
        return "\n\n".join(cell.source for cell in self.cells if cell.exercise == id)

    def marked(self, mark: str, id: str) -> Cell | None:
        """The Markdown cell marked `<!-- mark: id -->`."""
        return next((cell for cell in self.cells if (mark, id) in cell.marks), None)

    def hints(self, id: str) -> list[Hint]:
        """The hints that fold open below the exercise's text."""
        cell = self.marked("exercise", id)
        return cell.hints if cell else []


def anchor_of(title: str) -> str:
    """ "The-ring": what stands after # in a link to a heading, as JupyterLab has it."""
    return re.sub(r"[`*]", "", title).replace(" ", "-")


def checked_in(code: str) -> list[str]:
    """The ids of `check("03-overlap", ...)`, in a cell of ours or of a learner's."""
    return CHECKED.findall(re.sub(r"^\s*#.*", "", code, flags=re.MULTILINE))


def rooms(root: Path | None = None) -> list[Path]:
    """The folder of each lesson, in the order of the lessons."""
    folders = ((root or ROOT) / "lessons" / "source").glob("*/lesson.py")
    return sorted(f.parent for f in folders if ROOM.fullmatch(f.parent.name))


def number_of(name: str) -> str:
    """ "03" for a room "03_the_gil" or an exercise "03-overlap", "" for other names."""
    found = ROOM.fullmatch(name) or EXERCISE.fullmatch(name)
    return found[1] if found else ""


def full_number(text: str) -> str:
    """ "03" for "3", "08a" for "8a": as a lesson's number is written."""
    return re.sub(r"^\d(?!\d)", r"0\g<0>", text)


def is_numbered(number: str, text: str) -> bool:
    """Whether `text` asks for it: "03" or "3" for 03; "10", too, for 10a and 10b."""
    return full_number(text) in (number, number[:2])


def lessons() -> list[Lesson]:
    """Every lesson of the course, in order."""
    texts = [room / "lesson.py" for room in rooms()]
    return [_read_lesson_once(text, text.stat().st_mtime_ns) for text in texts]


def lessons_numbered(text: str) -> list[Lesson]:
    """Those that `text` asks for."""
    return [found for found in lessons() if is_numbered(found.number, text)]


def lesson_of(id: str) -> Lesson | None:
    """The lesson that holds an exercise."""
    return next((lesson for lesson in lessons() if id in lesson.exercises), None)


def read_lesson(room: Path) -> Lesson:
    """The lesson in this room."""
    return parse_lesson(room.name, (room / "lesson.py").read_text(encoding="utf-8"))


@lru_cache(maxsize=64)
def _read_lesson_once(text: Path, changed: int) -> Lesson:
    return read_lesson(text.parent)


def parse_lesson(name: str, text: str) -> Lesson:
    """A lesson from its text."""
    top, *rest = CELL.split(text)
    head = dict(re.findall(r"^# (\w+):\s*(.+?)\s*$", top, re.MULTILINE))
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return Lesson(name, head, [_parse_cell(options, body) for options, body in pairs])


def _parse_cell(options: str, body: str) -> Cell:
    settings = {key: ast.literal_eval(value) for key, value in OPTION.findall(options)}
    tags = tuple(settings.get("tags", ()))
    names = settings.get("exercise", ""), settings.get("figure", "")
    if not options.strip().startswith("[markdown]"):
        return Cell("code", body.strip("\n"), tags, *names)
    lines = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
    return Cell("markdown", lines.strip("\n"), tags, *names)


def stub(code: str) -> str:
    """What learners start from: an indented solution becomes a "your turn"."""

    def replacement(region: re.Match) -> str:
        return f"{region[1]}{YOUR_TURN}\n" if region[1] else ""

    return REGION.sub(replacement, code).rstrip()


def solved(code: str) -> str:
    """The solution without its markers, and without the `answer = ...` above it."""
    return REGION.sub(lambda region: region[2], PLACEHOLDERS.sub("", code)).rstrip()
