"""Build the lessons, the solutions and the instructor pages from their sources.

Run:   python lessons/source/build.py            every lesson
       python lessons/source/build.py 03 10a     only these
       python lessons/source/build.py --check    build nothing, say what is stale
       python lessons/source/build.py --execute  run the solutions even if unchanged
       python lessons/source/build.py --busy     run them while other programs work
       python lessons/source/build.py --nbgrader FOLDER 03   assignments, see
                                                 resources/workshop/grading.md

One source, NN_name/lesson.py, becomes lessons/NN_name.ipynb (exercises open, no
outputs), solutions/NN_name.ipynb (solved, executed) and
resources/workshop/NN_name.md. Nobody edits those three. A solution whose code is
unchanged keeps the outputs it has, so that editing text is quick; after changing a
demo or an instrument, use --execute. Readers see the times that a solution measured, so
it is executed on a quiet machine only, or with --busy.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from lessons.source.execution import (
    execute,
    figures,
    keep_outputs,
    require_a_quiet_machine,
)
from lessons.source.instructor_page import instructor_page
from lessons.source.nbgrader_assignment import SETTINGS, assignment
from lessons.source.notebooks import (
    BuildError,
    code_cells,
    open_notebook,
    solved_notebook,
    to_text,
)
from lessons.source.sample_answers import declared
from lessons.source.where_next import with_links
from sidebyside.course.lesson_format import (
    ROOM,
    full_number,
    number_of,
    read_lesson,
    rooms,
)
from sidebyside.course.own_copies import write_whole
from sidebyside.course.record import ROOT

NOTEBOOK_LIMIT = 300_000  # bytes


@dataclass
class Product:
    """One of the three files that a lesson becomes."""

    path: Path
    content: NotebookNode | str
    needs_run: bool = False  # a solution, which is not executed yet

    def text(self) -> str:
        return self.content if isinstance(self.content, str) else to_text(self.content)


def products(room: Path, root: Path) -> list[Product]:
    lesson, name = read_lesson(room), room.name
    linked = with_links(lesson, root)
    answers = declared(room, lesson.exercises)
    return [
        Product(root / f"solutions/{name}.ipynb", solved_notebook(linked), True),
        Product(root / f"lessons/{name}.ipynb", open_notebook(linked)),
        Product(
            root / f"resources/workshop/{name}.md", instructor_page(lesson, answers)
        ),
    ]


def short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def build(room: Path, root: Path, always_execute: bool, busy: bool) -> list[Path]:
    """Write the products that are new or changed, all or none; return them."""
    texts = {}
    for product in products(room, root):
        path, content = product.path, product.content
        if product.needs_run:
            if always_execute or not keep_outputs(content, path):
                if not busy:
                    require_a_quiet_machine()
                execute(content, folder=path.parent)
            texts |= figures(content, root)
        texts[path] = text = product.text()
        if path.suffix == ".ipynb" and len(text.encode()) > NOTEBOOK_LIMIT:
            raise BuildError(f"{short(path)} is larger than {NOTEBOOK_LIMIT} bytes")
    return [path for path, text in texts.items() if write(path, text)]


def assign(room: Path, folder: Path) -> list[Path]:
    """Write a lesson's assignment into the instructor's folder; return what is new."""
    texts = assignment(read_lesson(room))
    if not (folder / "nbgrader_config.py").exists():
        texts[Path("nbgrader_config.py")] = SETTINGS
    return [path for path, text in texts.items() if write(folder / path, text)]


def write(path: Path, content: str | bytes) -> bool:
    """Replace the file in one step, if its content is new. True when it was."""
    content = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == content:
        return False
    write_whole(path, content)
    return True


def complaints(room: Path, root: Path) -> list[str]:
    """One line for each product that is not what the source says."""
    lines = []
    for product in products(room, root):
        path = product.path
        if not path.exists():
            lines.append(f"{short(path)} is missing")
            continue
        found = Product(path, path.read_text(encoding="utf-8"))
        if product.needs_run:
            found.content = stored = nbformat.reads(found.text(), as_version=4)
            if any(cell.execution_count is None for cell in code_cells(stored)):
                lines.append(f"{short(path)} has cells that were never run")
            for figure, picture in figures(stored, root).items():
                if not figure.exists() or figure.read_bytes() != picture:
                    lines.append(f"{short(figure)} is not the solution's picture")
            for cell in code_cells(stored):
                cell.outputs, cell.execution_count = [], None
        if found.text() != product.text():
            lines.append(f"{short(path)} is stale: it is not what its source says")
    return lines


def complaints_about_all(found: list[Path], root: Path) -> list[str]:
    """Products whose source is gone."""
    notebooks = sorted([*root.glob("lessons/*.ipynb"), *root.glob("solutions/*.ipynb")])
    pages = sorted(root.glob("resources/workshop/*.md"))
    pages = [page for page in pages if ROOM.fullmatch(page.stem)]
    names = {room.name for room in found}
    gone = [path for path in notebooks + pages if path.stem not in names]
    return [f"{short(path)} has no source" for path in gone]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lessons", nargs="*", metavar="NN", help="default: all")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--execute", action="store_true", help="run even if unchanged")
    parser.add_argument("--busy", action="store_true", help="run on a busy machine too")
    parser.add_argument(
        "--nbgrader", type=Path, metavar="FOLDER", help="write assignments there"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    args = parser.parse_args(arguments)

    root = args.root.resolve()
    found = rooms(root)
    there = [number_of(room.name) for room in found]
    wanted = list(map(full_number, args.lessons))
    for unknown in sorted(set(wanted) - set(there)):
        known = ", ".join(there) or "none"
        print(f"build.py: no lesson {unknown}; there are: {known}", file=sys.stderr)
        return 2
    chosen = [room for room in found if not wanted or number_of(room.name) in wanted]

    problems = complaints_about_all(found, root) if args.check else []
    for room in chosen:
        try:
            if args.check:
                problems += complaints(room, root)
                continue
            if args.nbgrader:
                written = assign(room, args.nbgrader)
            else:
                written = build(room, root, args.execute, args.busy)
            names = ", ".join(map(short, written)) or "nothing"
            print(f"{room.name}: wrote {names}", flush=True)
        except BuildError as error:
            problems.append(f"{room.name}: {error}")
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
