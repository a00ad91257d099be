"""A program with other text in place of some of its lines: how a repair is written."""

from textwrap import dedent, indent


def code_with_changed_lines(
    name: str, lines: list[str], changes: dict[int, str]
) -> str:
    """The code with new text for some lines, of which the first has number 1.

    New text may be several lines, or "" to leave the line out. It gets the old line's
    indentation; lines after its first may have that already. A number that is no line
    of the program raises ValueError.
    """
    for number in changes:
        if number not in range(1, len(lines) + 1):
            raise ValueError(f"{name} has lines 1 to {len(lines)}, no line {number}")
    code = _with_changes(lines, changes, in_place=False)
    try:
        compile(code, name, "exec")
    except SyntaxError:
        code = _with_changes(lines, changes, in_place=True)
    return code


def _with_changes(lines: list[str], changes: dict[int, str], in_place: bool) -> str:
    """`in_place`: lines after the first of a new text are indented as they shall be."""
    lines = list(lines)
    for number, text in changes.items():
        old = lines[number - 1]
        margin = old[: len(old) - len(old.lstrip())]
        new = dedent(text.strip("\n"))
        lines[number - 1] = margin + new if in_place else indent(new, margin)
    return "\n".join(line for line in lines if line.strip())


def syntax_complaint(name: str, lines: list[str], changes: dict[int, str]) -> str:
    """What Python says of the program with these changes; "" if nothing."""
    try:
        compile(code_with_changed_lines(name, lines, changes), name, "exec")
    except (SyntaxError, ValueError) as error:
        return getattr(error, "msg", None) or str(error)
    return ""
