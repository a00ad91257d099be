"""The rules that every lesson's source keeps; each yields what breaks it."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat

from lessons.source.instructor_page import FENCE, HEADING
from sidebyside.course.lesson_format import Cell, Lesson, number_of, solved

CODE_CELLS, LINES_OF_CODE = 30, 20
DETAILS = re.compile(r"<details><summary>[^\n]+</summary>\n\n.*?</details>", re.DOTALL)
MERMAID = re.compile(r"^```mermaid\n(.*?)^```", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r" *(?:[-+*]|\d+[.)]) ")
BREAKS_IN = re.compile(r" *(?:[-+*] |1[.)] |#{1,6} |>|=+$|-+$)")  # into a paragraph
FORBIDDEN = {  # in a line of code
    r"^\s*[!%]|get_ipython": "a shell command or a magic",
    r";\s*(#.*)?$": "a semicolon at the end",
    r"^\s*from .* import \*": "a star import",
    r"\bplt\b|\bpyplot\b": "pyplot; use figure() of sidebyside",
    r"\bclear_output\b|update_display": "an output that changes later",
    r"(?i)#\s*(nbval|pytest_validate)_": "a comment for nbval; use a tag",
}
IMPORTS = ast.Import | ast.ImportFrom
LEARNERS_CALL = {"hint", "solution", "progress", "forget"}
TAGS = {"instructor", "why", "raises-exception", "nbval-ignore-output"}


def shown(lesson: Lesson) -> list[Cell]:
    """The cells that learners see."""
    return [cell for cell in lesson.cells if not {"instructor", "why"} & set(cell.tags)]


Rule = Callable[[Lesson], Iterator[str]]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    RULES[function.__name__] = function
    return function


def first_line(cell: Cell) -> str:
    return (cell.source.strip().splitlines() or ["(empty)"])[0]


def prose(cell: Cell) -> str:
    """The text of a Markdown cell without what stands in fences."""
    return FENCE.sub("", cell.source)


@rule
def code_is_plain_python(lesson: Lesson) -> Iterator[str]:
    for cell in lesson.code_cells:
        for line in cell.source.splitlines():
            for pattern, what in FORBIDDEN.items():
                if re.search(pattern, line):
                    yield f"{what}: {line.strip()}"


@rule
def cells_are_short_and_few(lesson: Lesson) -> Iterator[str]:
    if len(lesson.code_cells) > CODE_CELLS:
        yield f"{len(lesson.code_cells)} code cells, more than {CODE_CELLS}"
    for cell in lesson.code_cells:
        lines = len(re.findall(r"^.*\S", solved(cell.source), re.MULTILINE))
        if lines > LINES_OF_CODE:
            yield f"{lines} lines, more than {LINES_OF_CODE}: {first_line(cell)}"
        if not cell.source.strip():
            yield "an empty code cell"


@rule
def imports_stand_where_they_are_first_needed(lesson: Lesson) -> Iterator[str]:
    """In the cell whose code has the name, or below the text that names it.

    A cell that does nothing but import, right before the cell that needs it, is meant.
    """
    known, text = set(), ""
    trees = [ast.parse(solved(cell.source)) for cell in lesson.code_cells]
    used = [names_in(tree) for tree in trees]
    cells = iter(zip(trees, used, [*used[1:], set()], strict=True))
    for cell in lesson.cells:
        if cell.kind != "code":
            text += cell.text
            continue
        tree, needed, soon = next(cells)
        if all(isinstance(part, IMPORTS) for part in tree.body):
            needed = needed | soon
        for name in imported_in(tree):
            if name in known:
                yield f"imports {name} a second time: {first_line(cell)}"
            elif name not in needed | LEARNERS_CALL and f"`{name}" not in text:
                yield f"imports {name} before it is needed: {first_line(cell)}"
            known.add(name)
        text = ""


def imported_in(tree: ast.Module) -> list[str]:
    return [
        (alias.asname or alias.name).partition(".")[0]
        for part in tree.body
        if isinstance(part, IMPORTS)
        for alias in part.names
    ]


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@rule
def tags_are_known_and_few_outputs_are_ignored(lesson: Lesson) -> Iterator[str]:
    for cell in lesson.cells:
        for tag in set(cell.tags) - TAGS:
            yield f"unknown tag {tag}: {first_line(cell)}"
    ignored = [c for c in lesson.code_cells if "nbval-ignore-output" in c.tags]
    if len(ignored) * 5 > len(lesson.code_cells):
        yield f"{len(ignored)} of {len(lesson.code_cells)} cells ignore their output"


@rule
def exercises_are_complete(lesson: Lesson) -> Iterator[str]:
    marks = [mark for cell in lesson.cells for mark in cell.marks]
    checks = [name for cell in lesson.code_cells for name in cell.checked]
    for name in {*(name for _, name in marks), *lesson.exercises, *checks}:
        found = marks.count(("exercise", name)), marks.count(("why", name))
        found += checks.count(name), lesson.exercises.count(name)
        if found != (1, 1, 1, 1):
            yield f"{name}: its texts, whys, checks and code cells are {found}"
        if number_of(name) != lesson.number:
            yield f"exercise {name} does not begin with {lesson.number}-"
        if sum(bool(hint.text) for hint in lesson.hints(name)) != 3:
            yield f"exercise {name} has not 3 hints"
    if not lesson.exercises:
        yield "no exercise at all"


@rule
def headings_are_in_order(lesson: Lesson) -> Iterator[str]:
    number = lesson.number.lstrip("0")
    begins = f"# {number}. " if number else "# "
    if not shown(lesson)[0].source.startswith(begins):
        yield f"the first cell does not begin with {begins!r}"
    level = 0
    for cell in shown(lesson):
        if cell.kind != "markdown":
            continue
        for marks, title in HEADING.findall(prose(cell)):
            if len(marks) > level + 1 or (len(marks) == 1 and level > 0):
                yield f"heading of level {len(marks)} after level {level}: {title}"
            level = len(marks)


@rule
def no_sentence_becomes_a_list(lesson: Lesson) -> Iterator[str]:
    """By a line that begins, where it was wrapped, with "+ b" or "1. ", or the like."""
    for cell in lesson.cells:
        if cell.kind == "markdown":
            for paragraph in re.split(r"\n\s*\n", prose(cell)):
                yield from strange_lines(paragraph.splitlines())


def strange_lines(lines: list[str]) -> Iterator[str]:
    items = set()
    for number, line in enumerate(lines):
        item = ITEM.match(line)
        begin = re.sub(r"\d+", "1", item[0]) if item else line[:1]
        if number and BREAKS_IN.match(line) and begin not in items:
            yield f"begins what is no part of its paragraph: {line}"
        items.add(begin)


@rule
def parts_are_there(lesson: Lesson) -> Iterator[str]:
    text = "\n".join(c.source for c in shown(lesson) if c.kind == "markdown")
    if "What we saw" not in [title for _, title in HEADING.findall(text)]:
        yield "no heading 'What we saw'"
    if not any("instructor" in cell.tags for cell in lesson.cells):
        yield "no cell tagged instructor"


@rule
def details_fold(lesson: Lesson) -> Iterator[str]:
    for cell in lesson.cells:
        if cell.kind == "markdown":
            whole = len(DETAILS.findall(cell.source))
            parts = [cell.source.count(part) for part in ("<details", "</details>")]
            if parts != [whole, whole]:
                yield f"details that do not fold: {first_line(cell)}"


@rule
def pictures_are_described(lesson: Lesson) -> Iterator[str]:
    for cell in lesson.cells:
        if cell.kind != "markdown":
            continue
        for diagram in MERMAID.findall(cell.source):
            if "accTitle" not in diagram or "accDescr" not in diagram:
                yield f"a diagram without accTitle and accDescr: {diagram.strip()[:40]}"
        if "<img" in cell.source and 'alt="' not in cell.source:
            yield f"an image without a description: {first_line(cell)}"


def neighbours(cells: list) -> Iterator[tuple]:
    yield from zip([None, *cells], cells, [*cells[1:], None], strict=False)


def has_sentence(cell: Cell | None) -> bool:
    if cell is None or cell.kind != "markdown":
        return False
    text = "\n".join(line for line in prose(cell).splitlines() if line[:1] != "#")
    return bool(re.search(r"\w[\w)`*$]*[.:?!]", text))


def unexplained_images(path: Path) -> Iterator[str]:
    """Stored pictures of a notebook that have no sentence beside their cell."""
    cells = nbformat.read(path, 4).cells
    texts = [Cell(cell.cell_type, cell.source) for cell in cells]
    for stored, (before, cell, after) in zip(cells, neighbours(texts), strict=True):
        outputs = stored.get("outputs", [])
        kinds = [kind for output in outputs for kind in output.get("data", {})]
        explained = has_sentence(before) or has_sentence(after)
        if any(kind.startswith("image/") for kind in kinds) and not explained:
            yield f"a picture without a sentence beside it: {first_line(cell)}"
        if "image/svg+xml" in kinds:
            yield f"a picture that is not PNG: {first_line(cell)}"


def nothing_to_ignore(path: Path) -> Iterator[str]:
    """Cells of a solution whose tag ignores an output that they do not have."""
    for cell in nbformat.read(path, 4).cells:
        ignored = "nbval-ignore-output" in cell.metadata.get("tags", [])
        if ignored and not cell.get("outputs"):
            yield f"no output to ignore: {first_line(cell)}"
