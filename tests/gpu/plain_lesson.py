"""Run a lesson's solved cells from top to bottom in plain Python, without Jupyter."""

import ast
import contextlib
import io
import json
import linecache
import re
import sys
from pathlib import Path
from types import ModuleType

from sidebyside.course.lesson_format import ROOT, Cell, lessons_numbered, solved

SANITIZE = Path(__file__).parents[1] / "sanitize.cfg"


def run_lesson_plainly(number: str) -> tuple[str, str]:
    """ "ran", and how many cells print what the stored solution prints."""
    (lesson,) = lessons_numbered(number)
    stored = stored_texts(ROOT / "solutions" / f"{lesson.name}.ipynb")
    main = sys.modules["__main__"] = ModuleType("__main__")
    same = compared = 0
    for place, cell in enumerate(lesson.code_cells):
        printed = run_cell(cell, f"<cell {place} of lesson {number}>", main.__dict__)
        if "nbval-ignore-output" not in cell.tags and place in stored:
            compared += 1
            same += without_measurements(printed) == without_measurements(stored[place])
    return "ran", f"{same} of {compared} cells print what they print on the CPU"


def run_cell(cell: Cell, name: str, names: dict) -> str:
    """What it prints, and the value of its last line, as a notebook shows them."""
    source = solved(cell.source)
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(tree, name, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), name, "eval"), names)
                print("" if value is None else repr(value))
        except Exception:
            if "raises-exception" not in cell.tags:
                raise
    return printed.getvalue()


def stored_texts(notebook: Path) -> dict[int, str]:
    """The text that each code cell with one printed when the solution was executed."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    texts = {}
    for place, cell in enumerate(c for c in cells if c["cell_type"] == "code"):
        outputs = cell["outputs"]
        if any(o.get("name") == "stderr" or "image/png" in str(o) for o in outputs):
            continue
        found = [o.get("text") or o.get("data", {}).get("text/plain") for o in outputs]
        texts[place] = "".join("".join(text) + "\n" for text in found if text)
    return texts


def without_measurements(text: str) -> list[str]:
    """Without numbers that carry a unit, by the rules of the strict comparison."""
    rules = re.findall(
        r"^regex: (.*)\nreplace: (.*)$", SANITIZE.read_text("utf-8"), re.M
    )
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text.split()
