"""One page of a whole class: who has passed what, and where people get stuck.

Each learner hands in the file `.sidebyside/progress.json`. In the folder it may be
ada.json, ada/progress.json or ada/.sidebyside/progress.json: all of them are Ada's.
The page shows what the files hold as text, and does nothing else with it.
"""

from collections import Counter
from html import escape
from pathlib import Path
from statistics import median_low

from sidebyside.course.lesson_format import lessons
from sidebyside.course.record import parse_record
from sidebyside.exercises.findings import PASSED
from sidebyside.exercises.guesses import LARGEST, guess_with_unit
from sidebyside.exercises.standing import minutes_spent

MARK = '<!DOCTYPE html>\n<html lang="en"><!-- sidebyside class -->'
PAGE = """{mark}<head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<title>Side by Side: the class</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem; }}
div {{ overflow-x: auto; }} table {{ border-collapse: collapse; }}
th, td {{ text-align: left; vertical-align: top; padding: 0.2rem 0.8rem 0.2rem 0; }}
tr {{ border-bottom: 1px solid; }} td:first-child {{ white-space: nowrap; }}
</style></head><body><h1>The class: {learners}</h1>
{tables}
</body></html>
"""


def read_class(folder: Path) -> tuple[dict[str, dict], list[str]]:
    """The record of each learner, and a sentence for each file that has none."""
    records, faults = {}, []
    found = {*folder.glob("*.json"), *folder.rglob("progress.json")}
    for path in sorted(path for path in found if path.is_file()):
        parts = path.relative_to(folder).with_suffix("").parts
        name = "/".join(
            part for part in parts if part not in ("progress", ".sidebyside")
        )
        try:
            records[name or folder.name] = parse_record(path.read_text("utf-8"))
        except OSError as error:
            faults.append(f"{path} cannot be read: {error.strerror}.")
        except ValueError:
            faults.append(f"{path} is not a record of progress.")
    return records, faults


def class_page(records: dict[str, dict]) -> str:
    """The page as HTML."""
    tables = _passed(records), _stuck(records), _guessed(records)
    return PAGE.format(
        mark=MARK, learners=number_of_learners(records), tables="\n".join(tables)
    )


def number_of_learners(records: dict[str, dict]) -> str:
    """ "3 learners" """
    return f"{len(records)} learner{'s' * (len(records) != 1)}"


def _passed(records: dict[str, dict]) -> str:
    begun = {id for record in records.values() for id in record["exercises"]}
    chosen = [lesson for lesson in lessons() if begun & {*lesson.exercises}]
    rows = []
    for name, record in records.items():
        entries = record["exercises"]
        done = {id for id, entry in entries.items() if entry.get("state") == PASSED}
        each = [len(done & {*lesson.exercises}) for lesson in chosen]
        counts = [
            f"{n}/{len(lesson.exercises)}"
            for n, lesson in zip(each, chosen, strict=True)
        ]
        rows.append([name, str(sum(each)), minutes_spent(record), *counts])
    columns = ["learner", "passed", "time spent", *(lesson.number for lesson in chosen)]
    return _table("Who has passed what", columns, rows)


def _stuck(records: dict[str, dict]) -> str:
    """The exercises that were tried, first those that most people have yet to pass."""
    rows = []
    for id in [id for lesson in lessons() for id in lesson.exercises]:
        entries = {name: rec["exercises"].get(id, {}) for name, rec in records.items()}
        tried = {name: entry for name, entry in entries.items() if entry.get("tries")}
        if not tried:
            continue
        passed = [e["tries"] for e in tried.values() if e.get("state") == PASSED]
        stuck = [name for name, e in tried.items() if e.get("state") != PASSED]
        hints = sum(entry.get("hints", 0) for entry in entries.values())
        advice = Counter(e["advice"] for e in tried.values() if "advice" in e)
        told = "; ".join(f"{text} ({n} ×)" for text, n in advice.most_common(2))
        tries = median_low(passed) if passed else ""
        rows.append([id, len(stuck), ", ".join(stuck), told, len(passed), tries, hints])
    rows.sort(key=lambda row: (-row[1], -(row[5] or 0)))
    columns = ["exercise", "tried, not passed", "names", "last advice, to think about"]
    columns += ["passed", "tries it took (median)", "hints"]
    return _table("Where people get stuck", columns, rows)


def _guessed(records: dict[str, dict]) -> str:
    """The spread of each guess, and of what was measured."""
    cells = [cell for lesson in lessons() for cell in lesson.cells]
    rows = []
    for id in dict.fromkeys(id for cell in cells for id in cell.revealed):
        entries = [record["guesses"].get(id, {}) for record in records.values()]
        unit, question = (
            next((entry[key] for entry in entries if entry.get(key)), "")
            for key in ("unit", "question")
        )
        spreads = [_spread(entries, side, unit) for side in ("value", "measured")]
        rows.append([id, question, *spreads])
    rows = [row for row in rows if any(row[2:])]
    columns = ["guess", "question", "guessed", "measured"]
    return _table("Guesses, for the board", columns, rows)


def _spread(entries: list[dict], side: str, unit: str) -> str:
    """All numbers, from the lowest to the highest: "1.5, 2 ×"."""
    numbers = [entry[side] for entry in entries if entry.get(side) is not None]
    numbers = sorted(number for number in numbers if abs(number) <= LARGEST)
    shown = ", ".join(guess_with_unit(number, "") for number in numbers)
    return f"{shown} {unit}".strip() if shown else ""


def _table(title: str, columns: list[str], rows: list[list]) -> str:
    lines = [_row("th", columns), *(_row("td", row) for row in rows)]
    return f"<h2>{title}</h2><div><table>{''.join(lines)}</table></div>"


def _row(tag: str, cells: list) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(c))}</{tag}>' for c in cells)}</tr>\n"
