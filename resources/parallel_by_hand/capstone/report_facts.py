"""What a report says of its owner and machine: plain text, from the record."""

from parallel_by_hand.capstone.report_page import ReportSection
from sidebyside import machine
from sidebyside.course.lesson_format import lessons
from sidebyside.course.record import read_record
from sidebyside.exercises.findings import NOT_STARTED, PASSED
from sidebyside.exercises.guesses import distance_from_guess, guess_with_unit


def machine_section() -> ReportSection:
    """Of a report: the lines that `machine()` shows."""
    return {
        "title": "Machine", "note": "", "columns": ["what", "here"], "keys": 1,
        "rows": [[name, str(here)] for name, here in machine().rows().items()],
    }  # fmt: skip


def guesses_section() -> ReportSection:
    """Of a report: a row for each guess or measurement, in the order of the lessons."""
    guesses = read_record()["guesses"]
    rows = [_row_of_guess(id, guesses[id]) for id in sorted(guesses)]
    rows = [row for row in rows if row[2] or row[3]]
    return {
        "title": "Guesses and measurements",
        "note": "A cell that asks for a guess writes it down, and the cell that "
        "measures sets its result beside it. Only the cells that were run are here; "
        "results that follow from a formula are called computed.",
        "columns": ["guess", "question", "guessed", "came out", "apart"],
        "keys": 2,
        "rows": rows,
    }


def _row_of_guess(id: str, entry: dict) -> list[str]:
    guessed, found, unit = entry.get("value"), entry.get("measured"), entry.get("unit")
    unit = unit or ""
    apart, came_out = "", _number(found, unit)
    if came_out and entry.get("computed"):
        came_out += ", computed"
    if guessed is not None and found is not None:
        apart = distance_from_guess(guessed, found, unit)
    asked = str(entry.get("question", ""))
    return [id, asked, _number(guessed, unit), came_out, apart]


def _number(number: float | None, unit: str) -> str:
    return "" if number is None else guess_with_unit(number, unit)


def exercises_section() -> ReportSection:
    """Of a report: for each lesson, how many exercises are passed, and their states."""
    recorded, rows, passed, total = read_record()["exercises"], [], 0, 0
    for lesson in lessons():
        ids = lesson.exercises
        states = [recorded.get(id, {}).get("state", NOT_STARTED) for id in ids]
        done = states.count(PASSED)
        passed, total = passed + done, total + len(ids)
        told = [
            f"{id.removeprefix(lesson.number + '-')}: {_tries_in_report(recorded[id])}"
            for id in ids
            if id in recorded
        ]
        rows.append([lesson.title, f"{done} of {len(ids)}", ", ".join(told)])
    rows.append(["all lessons", f"{passed} of {total}", ""])
    return {
        "title": "Exercises",
        "note": "",
        "columns": ["lesson", "passed", "tried"],
        "keys": 1,
        "rows": rows,
    }


def _tries_in_report(entry: dict) -> str:
    """ "PASSED (2 tries, 1 hint)" """
    counts = {"tries": "try tries", "hints": "hint hints"}
    told = []
    for part, words in counts.items():
        if number := entry.get(part, 0):
            told.append(f"{number} {words.split()[number != 1]}")
    state = entry.get("state", NOT_STARTED)
    return f"{state} ({', '.join(told)})" if told else state
