"""A lesson's page of the instructor guide: what to say where, what people answer."""

import re

from lessons.source.sample_answers import Right, Wrong
from sidebyside.course.lesson_format import Cell, Lesson

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.*)", re.MULTILINE)
OPEN = 2  # so many wrong answers are seen at once, the others are folded


def instructor_page(lesson: Lesson, answers: dict[str, list[Right]]) -> str:
    """Instructor cells, hints and wrong answers, under the headings they belong to."""
    head = lesson.head
    parts = [
        f"# {head['title']}: for the instructor",
        f"*{head['question']}*",
        f"Minutes: {head['minutes']}. Needs: {head['needs']}.",
    ]
    heading = written = ""
    for cell in lesson.cells:
        if cell.kind != "markdown" or "why" in cell.tags:
            continue
        for_instructor = "instructor" in cell.tags
        titles = HEADING.findall(FENCE.sub("", cell.source))
        if titles and not for_instructor:
            heading = titles[-1][1]
        own = for_instructor and re.match(r"#+ (?!Minutes)(.*)", cell.source.strip())
        if (for_instructor or cell.marks) and heading != written and not own:
            parts.append(f"## {heading}")
            written = heading
        if for_instructor:
            style = r"## \2" if own else r"**\2**"
            parts.append(HEADING.sub(style, cell.source.strip()))
            written = own[1] if own else written
        for _, id in cell.marks:
            parts += _exercise(id, cell, answers.get(id, []))
    parts.append("<!-- Made by lessons/source/build.py. Edit the lesson's source. -->")
    return "\n\n".join(parts) + "\n"


def _exercise(id: str, cell: Cell, answers: list[Right]) -> list[str]:
    hints = [f"- *{hint.title}.* {' '.join(hint.text.split())}" for hint in cell.hints]
    parts = [f"Exercise `{id}`. The hints:", "\n".join(hints)]
    known = [
        f"- *{answer.name.replace('_', ' ')}* ({answer.state}). {answer.note}"
        for answer in answers
        if isinstance(answer, Wrong)
    ]
    first, others = known[:OPEN], known[OPEN:]
    if first:
        parts += ["What people answer, the likeliest first:", "\n".join(first)]
    if others:
        fold = f"<details><summary>{len(others)} more</summary>"
        parts += [fold, "\n".join(others), "</details>"]
    return parts
