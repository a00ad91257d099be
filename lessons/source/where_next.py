"""The last cell of a lesson: where a reader can go from there.

The build writes it, so that no link has to be kept by hand: the next lesson is the
next room, and the demos are those that the lesson names, and those that show a module
which it imports. The links hold in `lessons`, in `solutions` and in any other folder
beside them.
"""

import re
from pathlib import Path

from sidebyside.course.lesson_format import Cell, Lesson, read_lesson, rooms

TAG = "where-next"  # of this cell in the notebooks
GLOSSARY = "../resources/workshop/glossary.md"
INDEX = "../resources/workshop/index.md"
# As lessons write it: from demos.gil import a, b; from demos.gil.a import c; gil/a.py.
# A demo has the name of the library's module that it shows.
PACKAGE = r"(?:demos|parallel_by_hand)"
DEMO = re.compile(
    rf"from {PACKAGE}\.(\w+) import (\([\w,\s]+|[\w, ]+)|{PACKAGE}\.(\w+)\.(\w+)"
    r"|(\w+)/(\w+)\.py\b"
)


def with_links(lesson: Lesson, root: Path) -> Lesson:
    """The lesson with one more cell: links to what comes next."""
    lines = [
        f"**Words:** the [glossary]({GLOSSARY}) explains each in one line. "
        f"**Questions and error messages:** the [index]({INDEX}) leads to answers."
    ]
    if later := [room for room in rooms(root) if room.name > lesson.name]:
        following = read_lesson(later[0])
        link = f"[{following.title}]({following.name}.ipynb)"
        lines.insert(0, f"**Next lesson:** {link}. *{following.head['question']}*")
    else:
        lines.insert(0, "This is the last lesson.")
    if demos := demos_of_lesson(lesson, root):
        links = [f"[{demo}](../demos/{demo})" for demo in demos]
        lines.append(
            "**Demos of this lesson,** to read and to run in a terminal: "
            f"{', '.join(links)}."
        )
    cell = Cell("markdown", "\n\n".join(lines), tags=(TAG,))
    return lesson._replace(cells=[*lesson.cells, cell])


def demos_of_lesson(lesson: Lesson, root: Path) -> list[str]:
    """ "gil/sleeping_threads.py" and others: the programs that learners read about.

    In the order of the text.
    """
    seen = [cell.source for cell in lesson.cells if "instructor" not in cell.tags]
    found = []
    for match in DEMO.finditer("\n".join(seen)):
        group, names = filter(None, match.groups())
        found += [f"{group}/{name}.py" for name in re.findall(r"\w+", names)]
    demos = [name for name in found if (root / "demos" / name).is_file()]
    return list(dict.fromkeys(demos))
