"""Build the lessons, the solutions and the instructor pages from their sources.

Run:   python lessons/source/build.py            every lesson
       python lessons/source/build.py 03 10a     only these
       python lessons/source/build.py --check    build nothing, say what is stale
       python lessons/source/build.py --execute  run the solutions even if unchanged
       python lessons/source/build.py --busy     run them while other programs work

One source, NN_name/lesson.py, becomes lessons/NN_name.ipynb (exercises open, no
outputs), solutions/NN_name.ipynb (solved, executed) and
resources/workshop/NN_name.md. Nobody edits those three. A solution whose code is
unchanged keeps the outputs it has, so that editing text is quick; after changing a
demo or an instrument, use --execute. Readers see the times that a solution measured, so
it is executed on a quiet machine only, or with --busy.
"""

import argparse
import sys
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
from sidebyside.course.record import ROOT

NOTEBOOK_LIMIT, TOTAL_LIMIT = 300_000, 10_000_000  # bytes


def products(room: Path, root: Path) -> dict[Path, NotebookNode | str]:
    """What the lesson becomes, and where; the solution is not executed yet."""
    lesson, name = read_lesson(room), room.name
    linked = with_links(lesson, root)
    page = root / f"resources/workshop/{name}.md"
    return {
        root / f"solutions/{name}.ipynb": solved_notebook(linked),
        root / f"lessons/{name}.ipynb": open_notebook(linked),
        page: instructor_page(lesson, declared(room, lesson.exercises)),
    }


def short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def build(room: Path, root: Path, always_execute: bool, busy: bool) -> list[Path]:
    """Write the products that are new or changed, all or none; return them."""
    texts = {}
    for path, product in products(room, root).items():
        is_solution = path.parent.name == "solutions"
        if is_solution and (always_execute or not keep_outputs(product, path)):
            if not busy:
                require_a_quiet_machine()
            execute(product, folder=path.parent)
        if is_solution:
            texts |= figures(product, root)
        texts[path] = product if isinstance(product, str) else to_text(product)
        if path.suffix == ".ipynb" and len(texts[path].encode()) > NOTEBOOK_LIMIT:
            raise BuildError(f"{short(path)} is larger than {NOTEBOOK_LIMIT} bytes")
    return [path for path, text in texts.items() if write(path, text)]


def write(path: Path, content: str | bytes) -> bool:
    """Replace the file in one step, if its content is new. True when it was."""
    content = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == content:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def complaints(room: Path, root: Path) -> list[str]:
    """One line for each product that is not what the source says."""
    lines = []
    for path, product in products(room, root).items():
        if not path.exists():
            lines.append(f"{short(path)} is missing")
            continue
        found = path.read_text(encoding="utf-8")
        if path.parent.name == "solutions":
            stored = nbformat.reads(found, as_version=4)
            if any(cell.execution_count is None for cell in code_cells(stored)):
                lines.append(f"{short(path)} has cells that were never run")
            for figure, picture in figures(stored, root).items():
                if not figure.exists() or figure.read_bytes() != picture:
                    lines.append(f"{short(figure)} is not the solution's picture")
            for cell in code_cells(stored):
                cell.outputs, cell.execution_count = [], None
            found = to_text(stored)
        if found != (product if isinstance(product, str) else to_text(product)):
            lines.append(f"{short(path)} is stale: it is not what its source says")
        if path.suffix == ".ipynb" and path.stat().st_size > NOTEBOOK_LIMIT:
            lines.append(f"{short(path)} is larger than {NOTEBOOK_LIMIT} bytes")
    return lines


def complaints_about_all(found: list[Path], root: Path) -> list[str]:
    """Products whose source is gone; too many bytes in all."""
    notebooks = sorted([*root.glob("lessons/*.ipynb"), *root.glob("solutions/*.ipynb")])
    pages = sorted(root.glob("resources/workshop/*.md"))
    pages = [page for page in pages if ROOM.fullmatch(page.stem)]
    names = {room.name for room in found}
    gone = [path for path in notebooks + pages if path.stem not in names]
    lines = [f"{short(path)} has no source" for path in gone]
    if sum(path.stat().st_size for path in notebooks) > TOTAL_LIMIT:
        lines.append(f"the notebooks together are larger than {TOTAL_LIMIT} bytes")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lessons", nargs="*", metavar="NN", help="default: all")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--execute", action="store_true", help="run even if unchanged")
    parser.add_argument("--busy", action="store_true", help="run on a busy machine too")
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
