"""Where the course says something about a word, a question or an error message.

`sidebyside find "all-reduce"` looks into the glossary, the index of questions and error
messages, the lessons' headings and exercises, and the first lines of the demos.
"""

import ast
import difflib
import math
import os
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from sidebyside.course.lesson_format import lessons
from sidebyside.course.record import ROOT

GLOSSARY, INDEX = (ROOT / f"resources/workshop/{n}.md" for n in ("glossary", "index"))
ROW = re.compile(r"^\| (.+?) \|(?: (.+) \|)? \[(.+?)\]\((.+?)\) \|$", re.MULTILINE)
HEADING = re.compile(r"^##+ (.*)", re.MULTILINE)


class Row(NamedTuple):
    """One row of a table in the glossary or the index."""

    name: str
    meaning: str
    label: str  # "09, All seven"
    link: str  # as it is written, with # and the heading


class Entry(NamedTuple):
    name: str  # a word, a question, an error message, a heading, or a demo
    meaning: str
    place: str


def rows(page: Path) -> list[Row]:
    """Of the tables of a page."""
    return [Row(*found) for found in ROW.findall(page.read_text(encoding="utf-8"))]


@cache
def entries() -> list[Entry]:
    """All that can be found; where two fit equally well, the first is shown first."""
    found = []
    for page in GLOSSARY, INDEX:
        for row in rows(page):
            file = os.path.normpath(page.parent / row.link.partition("#")[0])
            place = f"{short(Path(file))}, {row.label.partition(', ')[2]}"
            found.append(Entry(row.name.strip("`"), row.meaning, place))
    for lesson in lessons():
        file = f"lessons/{lesson.name}.ipynb"
        found.append(Entry(lesson.title, lesson.head.get("question", ""), file))
        for cell in lesson.cells:
            if cell.kind == "markdown" and "instructor" not in cell.tags:
                ids = ", ".join(id for mark, id in cell.marks if mark == "exercise")
                titles = HEADING.findall(cell.text)
                found += [Entry(title, ids, f"{file}, {title}") for title in titles]
    for demo in sorted(ROOT.glob("demos/*/*.py")):
        text = ast.get_docstring(ast.parse(demo.read_text(encoding="utf-8"))) or ""
        found.append(Entry(demo.name, text.partition("\n")[0], short(demo)))
    return found


def short(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def words(text: str) -> list[str]:
    """In lower case, without the s of a plural; "all-reduce" is two."""
    found = re.findall(r"[^\W_]+", text.lower())
    return [re.sub(r"(?<=\w\w\w)s$", "", word) for word in found]


def terms(words: list[str]) -> set[str]:
    """The words, and any two neighbours as one: all, reduce and allreduce."""
    return {*words, *map("".join, pairwise(words))}


def find(text: str, most: int = 10) -> list[Entry]:
    """What fits best, the best first.

    A term counts for more the fewer entries have it. An unknown word is replaced by a
    known one that is nearly the same; numbers and addresses of a message are left out.
    """
    there = entries()
    names = [terms(words(entry.name)) for entry in there]
    meanings = [terms(words(entry.meaning)) for entry in there]
    count = Counter(term for both in map(set.union, names, meanings) for term in both)

    def weight(terms: Iterable[str]) -> float:
        return sum(math.log(1 + len(there) / count[term]) for term in terms)

    asked = []
    for word in words(text):
        if word in count:
            asked.append(word)
        elif word.isalpha():
            asked += difflib.get_close_matches(word, count, 1, 0.8)
    wanted = terms(asked) & count.keys()

    def fit(name: set[str], meaning: set[str]) -> float:
        hit = weight(wanted & name)
        hits = hit + weight(wanted & meaning - name) / 3
        return hits * (hits / weight(wanted) + hit / weight(name)) if hits else 0

    fits = list(map(fit, names, meanings))
    best = sorted(range(len(there)), key=lambda i: -fits[i])[:most]
    return [there[i] for i in best if fits[i]]
