"""check, hint, solution, progress, reset: what a learner does with an exercise."""

import difflib
import inspect
from dataclasses import dataclass

from sidebyside.expectations import NotYet, TooSlow, trying
from sidebyside.findings import NOT_STARTED, NOT_YET, PASSED, Finding
from sidebyside.judge import examine, exercise, find_exercise
from sidebyside.lesson_format import (
    Lesson,
    full_number,
    lesson_of,
    lessons,
    solved,
)
from sidebyside.record import changed_record, read_record
from sidebyside.showing import show_code, show_markdown

__all__ = [
    "NotYet", "TooSlow", "Verdict", "check", "exercise", "hint", "progress",
    "reset", "solution", "trying",
]  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What `check` says: `.state` is NOT STARTED, NOT YET, PASSED, TOO SLOW or HUNG."""

    id: str
    state: str
    message: str

    def _ipython_display_(self) -> None:
        """`check` has shown the message: a last line does not show it again."""


def check(id: str, *answers: object) -> Verdict:
    """Try out the answers to an exercise, and say what came back.

    Never raises and always ends: the answers are run in a process that can be killed.
    """
    try:
        verdict = _verdict_on_exercise(id, answers)
        if verdict.state != NOT_STARTED:
            _remember_exercise(verdict)
    except KeyboardInterrupt:
        lines = [("came back", "nothing: you interrupted the check")]
        message = Finding(NOT_YET, lines, think="nothing yet: this is not recorded")
        verdict = Verdict(id, NOT_YET, message.text(id))
    except Exception as error:
        fault = f"the check itself failed: {type(error).__name__}: {error}"
        message = Finding(NOT_YET, [("sorry", fault), ("", "a mistake of the course")])
        verdict = Verdict(id, NOT_YET, message.text(id))
    print(verdict.message)
    return verdict


def _verdict_on_exercise(id: str, answers: tuple) -> Verdict:
    if not isinstance(id, str):
        message = 'check(id, answer): the id comes first, as in check("03-name", name)'
        return Verdict(str(id), NOT_STARTED, message)
    found = find_exercise(id)
    if found is None:
        return Verdict(id, NOT_STARTED, _unknown_exercise(id))
    try:
        inspect.signature(found.check).bind(*answers)
    except TypeError:
        return Verdict(
            id, NOT_STARTED, _how_to_call_check(id, found.check, len(answers))
        )
    finding = examine(found, answers)
    return Verdict(id, finding.state, finding.text(id))


def _remember_exercise(verdict: Verdict) -> None:
    """Once passed stays passed, until `reset`."""
    with changed_record() as record:
        entry = record["exercises"].setdefault(verdict.id, {})
        entry["tries"] = entry.get("tries", 0) + 1
        if entry.get("state") != PASSED:
            entry["state"] = verdict.state


def _how_to_call_check(id: str, function, given: int) -> str:
    names = list(inspect.signature(function).parameters)
    call = ", ".join([f'"{id}"', *names])
    count = f"{len(names)} answer" + "s" * (len(names) != 1)
    return f"{id} takes {count}, not {given}: check({call})"


def _unknown_exercise(id: str) -> str:
    """There is no such exercise; say which ids are near."""
    ids = [known for lesson in lessons() for known in lesson.exercises]
    near = difflib.get_close_matches(id, ids, n=3)
    sentence = f'There is no exercise "{id}".'
    if near:
        either = '" or "'.join(near)
        return f'{sentence} Did you mean "{either}"?'
    return f"{sentence} progress() lists them all."


def hint(id: str) -> None:
    """Show the next of three hints: a question, an idea, almost the code."""
    lesson = lesson_of(id)
    hints = lesson.hints(id) if lesson else []
    if not hints:
        print(_unknown_exercise(id) if lesson is None else f"{id} has no hints.")
        return
    with changed_record() as record:
        entry = record["exercises"].setdefault(id, {})
        seen = entry.get("hints", 0)
        place = seen % len(hints)
        entry["hints"] = seen + 1 if seen < len(hints) else 1
    title, text = hints[place]
    title = title.partition(":")[2].strip() or title
    again = f"You have seen all {len(hints)} hints; here is the first again.\n\n"
    intro = again if seen >= len(hints) else ""
    show_markdown(f"{intro}*Hint {place + 1} of {len(hints)}: {title}*\n\n{text}")


def solution(id: str) -> None:
    """Show the code of the solution, and why it works."""
    lesson = lesson_of(id)
    if lesson is None:
        print(_unknown_exercise(id))
        return
    if not read_record()["exercises"].get(id, {}).get("tries"):
        print(f'You have not tried {id} yet; hint("{id}") may be enough.')
    show_code(solved(lesson.code(id)))
    if why := lesson.marked("why", id):
        show_markdown(why.text)


def progress(lesson: str | int | None = None) -> None:
    """Show the state of every exercise, or of one lesson's: progress("03")."""
    number = None if lesson is None else full_number(str(lesson))
    chosen = [found for found in lessons() if number in (None, found.number)]
    ids = [id for found in chosen for id in found.exercises]
    if not ids:
        print("There are no exercises here.")
        return
    states = {id: _state_of_exercise(id) for id in ids}
    first = max(len(found.title) for found in chosen)
    second = max(map(len, ids))
    for found in chosen:
        _print_exercises_of_lesson(found, states, first, second)
    passed = sum(state == PASSED for state in states.values())
    print(f"\n{passed} of {len(ids)} exercises passed")


def _print_exercises_of_lesson(
    lesson: Lesson, states: dict, first: int, second: int
) -> None:
    title = lesson.title
    for id in lesson.exercises:
        print(f"{title:<{first}}  {id:<{second}}  {states[id]}")
        title = ""


def _state_of_exercise(id: str) -> str:
    return read_record()["exercises"].get(id, {}).get("state", NOT_STARTED)


def reset(id: str | None = None) -> None:
    """Forget what is recorded of one exercise or guess, or of all of them."""
    with changed_record() as record:
        tables = record["exercises"], record["guesses"]
        known = any(id in table for table in tables) or bool(id and lesson_of(id))
        for table in tables:
            table.clear() if id is None else table.pop(id, None)
    if id is None:
        print("All exercises and guesses are as on the first day.")
    else:
        print(f"{id} is as on the first day." if known else _unknown_exercise(id))
