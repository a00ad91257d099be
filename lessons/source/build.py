"""Build the lessons, the solutions and the instructor pages from their sources.

Run:   python lessons/source/build.py            every lesson
       python lessons/source/build.py 03 15      only these
       python lessons/source/build.py --check    build nothing, say what is stale
       python lessons/source/build.py --execute  run the solutions even if unchanged

One source, NN_name.py, becomes lessons/NN_name.ipynb (exercises open, no outputs),
solutions/NN_name.ipynb (solved, executed) and resources/workshop/NN_name.md. Nobody
edits those three. A solution whose code is unchanged keeps the outputs it has, so
that editing text is quick; after changing a demo or an instrument, use --execute.
"""

import argparse
import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from base64 import b64decode
from pathlib import Path
from subprocess import DEVNULL

import jupytext
import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode, v4

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK_LIMIT, TOTAL_LIMIT = 300_000, 10_000_000  # bytes
CELL_SECONDS = 120

REGION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION[ \t]*\n(.*?)^[ \t]*### END SOLUTION[ \t]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
PLACEHOLDERS = re.compile(
    r"(?:^\w+(?:: [^=\n]+)? = \.\.\.[^\n]*\n)+(?=### BEGIN SOLUTION)", re.MULTILINE
)
MARKER = re.compile(r"^<!-- (exercise|why): (\S+) -->[ \t]*\n?", re.MULTILINE)
HINT = re.compile(r"<details><summary>(.*?)</summary>\n\n(.*?)\n*</details>", re.DOTALL)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.*)", re.MULTILINE)


class BuildError(Exception):
    """A source that cannot be built; the message is for its author."""


def read_source(path: Path) -> tuple[dict[str, str], list[NotebookNode]]:
    """The header (title, question, needs, minutes) and the cells of a source."""
    cells = jupytext.read(path, fmt="py:percent").cells
    header = {}
    if cells and cells[0].cell_type == "raw":
        lines = cells.pop(0).source.splitlines()
        header = dict(
            re.split(r":\s*", line, maxsplit=1) for line in lines if ":" in line
        )
    if missing := {"title", "question", "needs", "minutes"} - set(header):
        raise BuildError(f"the header does not say: {', '.join(sorted(missing))}")
    return header, cells


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def code_cells(nb: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in nb.cells if cell.cell_type == "code"]


# The two notebooks


def stub(code: str) -> str:
    """What learners start from: an indented solution becomes a "your turn"."""

    def replacement(region: re.Match) -> str:
        indent = region[1]
        return f'{indent}raise NotImplementedError("your turn")\n' if indent else ""

    return REGION.sub(replacement, code).rstrip()


def solved(code: str) -> str:
    """The solution without its markers, and without the `answer = ...` above it."""
    return REGION.sub(lambda region: region[2], PLACEHOLDERS.sub("", code)).rstrip()


def notebook(header: dict, cells: list, leave_out: set[str], code_of) -> NotebookNode:
    """The cells that have none of these tags; ids made from content, so they stay."""
    made, seen = [], {}
    for cell in cells:
        if leave_out & set(tags(cell)):
            continue
        metadata = {
            key: cell.metadata[key]
            for key in ("tags", "exercise", "figure")
            if key in cell.metadata
        }
        if cell.cell_type == "code":
            new = v4.new_code_cell(code_of(cell.source), metadata=metadata)
        else:
            metadata |= dict(MARKER.findall(cell.source))
            text = re.sub(r"\n{3,}", "\n\n", MARKER.sub("", cell.source)).strip()
            new = v4.new_markdown_cell(text, metadata=metadata)
        if re.search(r"### *(BEGIN|END) *SOLUTION", new.source, re.IGNORECASE):
            raise BuildError(f"a solution is not opened or not closed:\n\n{new.source}")
        digest = hashlib.sha256((new.cell_type + new.source).encode()).hexdigest()[:12]
        seen[digest] = count = seen.get(digest, 0) + 1
        new.id = digest if count == 1 else f"{digest}-{count}"
        made.append(new)
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python"}
    metadata = {
        "kernelspec": kernel | {"name": "python3"},
        "language_info": {"name": "python"},
        "sidebyside": header,
    }
    return v4.new_notebook(cells=made, metadata=metadata)


def lesson_of(header: dict, cells: list) -> NotebookNode:
    for cell in cells:
        is_exercise = "exercise" in cell.metadata and cell.cell_type == "code"
        if is_exercise and stub(cell.source) == solved(cell.source):
            raise BuildError(f"an exercise without a solution:\n\n{cell.source}")
    return notebook(header, cells, {"instructor", "why"}, stub)


def solution_of(header: dict, cells: list) -> NotebookNode:
    return notebook(header, cells, {"instructor"}, solved)


def to_text(nb: NotebookNode) -> str:
    return nbformat.writes(nb, version=4) + "\n"


# Running a solution


def normalise(text: str) -> str:
    """Take out what belongs to this machine only: where things are installed."""
    start = r"[~/][^\s'\"\x1b(]*"
    text = re.sub(start + r"/ipykernel_\d+/\d+\.py", "<cell>", text)
    text = re.sub(start + r"/site-packages/", "site-packages/", text)
    text = re.sub(start + r"/lib/python3\.\d+/", "python/", text)
    for root in (str(ROOT), str(ROOT).replace(str(Path.home()), "~", 1)):
        text = text.replace(root + os.sep, "").replace(root, ".")
    temporary = re.escape(tempfile.gettempdir()) + r"/[^\s'\"\x1b),;:]*"
    return re.sub(temporary, "<temporary>", text)


def normalise_outputs(value):
    """The same outputs with every text normalised, pictures untouched."""
    if isinstance(value, list):
        return [normalise_outputs(item) for item in value]
    if isinstance(value, dict):
        pairs = value.items()
        return NotebookNode(
            {k: v if k.startswith("image/") else normalise_outputs(v) for k, v in pairs}
        )
    return normalise(value) if isinstance(value, str) else value


def execute(nb: NotebookNode, folder: Path) -> None:
    """Run every cell, in `folder`, with this interpreter; store the outputs."""
    folder.mkdir(exist_ok=True)
    metadata = nb.metadata.copy()
    specs = KernelSpecManager(kernel_dirs=[])  # knows this interpreter only
    client = NotebookClient(
        nb,
        km=AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs),
        timeout=CELL_SECONDS,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    with tempfile.TemporaryDirectory() as private:
        progress = str(Path(private, "progress.json"))
        environment = os.environ | {"SIDEBYSIDE_PROGRESS": progress}
        environment.pop("PYTEST_CURRENT_TEST", None)  # hides what children print
        try:
            client.execute(
                env=environment, stdout=DEVNULL, stderr=DEVNULL, cleanup_kc=True
            )
        except (CellExecutionError, DeadKernelError, TimeoutError) as error:
            raise BuildError(f"a cell of the solution failed:\n\n{error}") from None
    nb.metadata = metadata  # without the version of this interpreter
    for cell in code_cells(nb):
        cell.outputs = normalise_outputs(cell.outputs)
        raised = any(output.output_type == "error" for output in cell.outputs)
        if "raises-exception" in tags(cell) and not raised:
            raise BuildError(f"this cell should raise and did not:\n\n{cell.source}")


def keep_outputs(nb: NotebookNode, path: Path) -> bool:
    """Take over the outputs in `path` if all code is as it was. True if so."""
    if not path.exists():
        return False
    new, old = code_cells(nb), code_cells(nbformat.read(path, as_version=4))
    if [(cell.source, tags(cell)) for cell in new] != [
        (cell.source, tags(cell)) for cell in old if cell.execution_count is not None
    ]:
        return False
    for cell, stored in zip(new, old, strict=True):
        cell.outputs, cell.execution_count = stored.outputs, stored.execution_count
    return True


# The instructor page


def wrong_answers(path: Path) -> dict:
    """WRONG of tests/wrong_answers/lesson_NN.py; nothing when there is no such file."""
    if not path.exists():
        return {}
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.WRONG


def instructor_page(header: dict, cells: list, wrong: dict) -> str:
    """What to say where: instructor cells under the headings they belong to."""
    parts = [
        f"# {header['title']}: for the instructor",
        f"*{header['question']}*",
        f"Minutes: {header['minutes']}. Needs: {header['needs']}.",
    ]
    heading = written = ""
    for cell in cells:
        if cell.cell_type != "markdown" or "why" in tags(cell):
            continue
        for_instructor = "instructor" in tags(cell)
        titles = HEADING.findall(FENCE.sub("", cell.source))
        if titles and not for_instructor:
            heading = titles[-1][1]
        exercises = [name for _, name in MARKER.findall(cell.source)]
        own = for_instructor and re.match(r"#+ (?!Minutes)(.*)", cell.source.strip())
        if (for_instructor or exercises) and heading != written and not own:
            parts.append(f"## {heading}")
            written = heading
        if for_instructor:
            style = r"## \2" if own else r"**\2**"
            parts.append(HEADING.sub(style, cell.source.strip()))
            written = own[1] if own else written
        for name in exercises:
            hints = HINT.findall(cell.source)
            parts.append(f"Exercise `{name}`. The hints:")
            parts.append("\n".join(f"- *{t}.* {' '.join(h.split())}" for t, h in hints))
            known = [
                f"- *{answer.name.replace('_', ' ')}* ({answer.state}). {answer.note}"
                for answer in wrong.get(name, [])
            ]
            parts += ["What people answer:", "\n".join(known)] if known else []
    parts.append("<!-- Made by lessons/source/build.py. Edit the lesson's source. -->")
    return "\n\n".join(parts) + "\n"


# Files


def products(source: Path, root: Path) -> dict[Path, NotebookNode | str]:
    """What the source becomes, and where; the solution is not executed yet."""
    header, cells = read_source(source)
    name = source.stem
    wrong = wrong_answers(root / f"tests/wrong_answers/lesson_{name[:2]}.py")
    return {
        root / f"solutions/{name}.ipynb": solution_of(header, cells),
        root / f"lessons/{name}.ipynb": lesson_of(header, cells),
        root / f"resources/workshop/{name}.md": instructor_page(header, cells, wrong),
    }


def short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def figures(solution: NotebookNode, root: Path) -> dict[Path, bytes]:
    """The picture of each cell that is marked figure="name", for the README."""
    found = {}
    for cell in code_cells(solution):
        if name := cell.metadata.get("figure"):
            data = [output.get("data", {}) for output in cell.outputs]
            picture = next(d["image/png"] for d in data if "image/png" in d)
            found[root / f"resources/figures/{name}.png"] = b64decode(picture)
    return found


def build(source: Path, root: Path, always_execute: bool) -> list[Path]:
    """Write the products that are new or changed, all or none; return them."""
    texts = {}
    for path, product in products(source, root).items():
        is_solution = path.parent.name == "solutions"
        if is_solution and (always_execute or not keep_outputs(product, path)):
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


def complaints(source: Path, root: Path) -> list[str]:
    """One line for each product that is not what the source says."""
    lines = []
    for path, product in products(source, root).items():
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


def complaints_about_all(sources: list[Path], root: Path) -> list[str]:
    """Products whose source is gone; too many bytes in all."""
    notebooks = sorted([*root.glob("lessons/*.ipynb"), *root.glob("solutions/*.ipynb")])
    pages = sorted(root.glob("resources/workshop/[0-9][0-9]_*.md"))
    names = {source.stem for source in sources}
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
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    args = parser.parse_args(arguments)

    root = args.root.resolve()
    sources = sorted(root.glob("lessons/source/[0-9][0-9]_*.py"))
    numbers = [wanted.zfill(2) for wanted in args.lessons]
    chosen = [path for path in sources if not numbers or path.name[:2] in numbers]
    for unknown in sorted(set(numbers) - {path.name[:2] for path in chosen}):
        there = ", ".join(path.name[:2] for path in sources) or "none"
        print(f"build.py: no lesson {unknown}; there are: {there}", file=sys.stderr)
        return 2

    problems = complaints_about_all(sources, root) if args.check else []
    for source in chosen:
        try:
            if args.check:
                problems += complaints(source, root)
                continue
            written = [short(path) for path in build(source, root, args.execute)]
            print(f"{source.stem}: wrote {', '.join(written) or 'nothing'}", flush=True)
        except BuildError as error:
            problems.append(f"{source.stem}: {error}")
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
