"""Where the course says something about a word, a question or an error message.

`sidebyside find "all-reduce"` looks into the glossary, the index of questions and error
messages, the lessons' headings, sections and exercises, and the demos' first lines.
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

from sidebyside.course.lesson_format import anchor_of, lessons
from sidebyside.course.record import ROOT

GLOSSARY, INDEX = (ROOT / f"resources/workshop/{n}.md" for n in ("glossary", "index"))
ROW = re.compile(r"^\| (.+?) \|(?: (.+) \|)? \[(.+?)\]\((.+?)\) \|$", re.MULTILINE)

SMALL = re.findall(
    r"\w+",
    "a an and are at be by can do does for from i in is it my of on only or our so "
    "than that the there this to was what when where which who why with you",
)


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
    text: str = ""  # of a heading: its section


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
            ids = ", ".join(id for mark, id in cell.marks if mark == "exercise")
            for marks, title in cell.headings:
                cells = lesson.section(anchor_of(title)) if marks != "#" else []
                text = " ".join(c.text for c in cells if "instructor" not in c.tags)
                found.append(Entry(title, ids, f"{file}, {title}", text))
    for demo in sorted(ROOT.glob("demos/*/*.py")):
        text = ast.get_docstring(ast.parse(demo.read_text(encoding="utf-8"))) or ""
        found.append(Entry(demo.name, text.partition("\n")[0], short(demo)))
    return found


def short(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def words(text: str) -> list[str]:
    """In lower case and British, without the s of a plural; "all-reduce" is two."""
    found = re.findall(r"[^\W_]+", text.lower().replace("iz", "is"))
    return [re.sub(r"(?<=\w\w\w)s$", "", word) for word in found if word not in SMALL]


def terms(words: list[str]) -> set[str]:
    """The words, and any two neighbours as one: all, reduce and allreduce."""
    return {*words, *map("".join, pairwise(words))}


@cache
def indexed() -> list[tuple[set[str], set[str], set[str]]]:
    """The terms in the name, in the meaning and in the text of each entry."""
    return [
        (
            terms(words(entry.name)),
            terms(words(entry.meaning)),
            terms(words(entry.text)),
        )
        for entry in entries()
    ]


def find(text: str, most: int = 10) -> list[Entry]:
    """What fits best, the best first.

    A term counts for more the fewer entries and sections have it. An unknown word is
    replaced by a known one that is nearly the same; numbers and addresses of a message
    are left out.
    """
    there, parts = entries(), indexed()
    count = Counter(term for each in parts for term in set.union(*each))
    known = {term for name, meaning, _ in parts for term in name | meaning}

    def weight(terms: Iterable[str]) -> float:
        return sum(math.log(1 + len(there) / count[term]) for term in terms)

    asked = []
    for word in words(text):
        if word in known or (len(word) > 2 and word in count):
            asked.append(word)
        elif word.isalpha():
            asked += difflib.get_close_matches(word, known, 1, 0.8)
    wanted = terms(asked) & count.keys()

    def fit(name: set[str], meaning: set[str], text: set[str]) -> float:
        hit = weight(wanted & name)
        hits = hit + weight(wanted & meaning - name) / 3
        hits += weight(wanted & text - meaning - name) / 9
        share = hit and hit / weight(name)
        return hits * (hits / weight(wanted) + share) if hits else 0

    fits = [fit(*each) for each in parts]
    best = sorted(range(len(there)), key=lambda i: -fits[i])[:most]
    return [there[i] for i in best if fits[i]]
