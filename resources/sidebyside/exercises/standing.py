"""progress, reset and what comes next: where a learner stands in the course."""

import difflib
import os
import re

from sidebyside.course.lesson_format import (
    NUMBER,
    Lesson,
    full_number,
    lesson_of,
    lessons,
    lessons_numbered,
    number_of,
)
from sidebyside.course.record import changed_record, keep_copy_of_record, read_record
from sidebyside.exercises.findings import NOT_STARTED, PASSED

REPLACED = {"11a-replicas": "11a-stop"}  # old copies of lessons still ask for these


def progress(lesson: str | int | None = None) -> None:
    """Show the state of every exercise, or of one lesson's: progress("03")."""
    chosen = lessons() if lesson is None else lessons_numbered(str(lesson))
    if not chosen:
        print(_unknown_lesson(lesson))
        return
    states = _states_of_exercises(chosen)
    first = max(len(found.title) for found in chosen)
    second = max(map(len, states), default=0)
    for found in chosen:
        title = found.title
        for id in found.exercises:
            print(f"{title:<{first}}  {id:<{second}}  {states[id]}")
            title = ""
    passed = list(states.values()).count(PASSED)
    print(f"\n{passed} of {len(states)} exercises passed")
    if not on_solution_page():
        print(_next_of(chosen, states))


def _states_of_exercises(chosen: list[Lesson]) -> dict[str, str]:
    """The state of each exercise of these lessons, by id, in their order."""
    recorded = read_record()["exercises"]
    ids = [id for lesson in chosen for id in lesson.exercises]
    return {id: recorded.get(id, {}).get("state", NOT_STARTED) for id in ids}


def _next_of(chosen: list[Lesson], states: dict[str, str]) -> str:
    """What was begun; else what is open after the last that is passed, or before."""
    ids = list(states)
    if begun := [id for id in ids if states[id] not in (NOT_STARTED, PASSED)]:
        return f'Next: {begun[-1]} again, and hint("{begun[-1]}") helps.'
    passed = [place for place, id in enumerate(ids) if states[id] == PASSED]
    last = max(passed, default=-1)
    later_first = ids[last + 1 :] + ids[:last]
    if still_open := [id for id in later_first if states[id] != PASSED]:
        return f"Next: {still_open[0]}, in lesson {lesson_of(still_open[0]).title}."
    return _next_lesson(chosen[-1])


def next_after(id: str) -> str:
    """What follows a passed exercise: the next open one, or the next lesson."""
    [lesson] = [lesson for lesson in lessons() if id in lesson.exercises]
    states = _states_of_exercises([lesson])
    later = lesson.exercises[lesson.exercises.index(id) + 1 :]
    if still_open := [other for other in later if states[other] != PASSED]:
        return f"Next: {still_open[0]}."
    return _next_lesson(lesson)


def _next_lesson(lesson: Lesson) -> str:
    later = [other for other in lessons() if other.name > lesson.name]
    if later:
        return f"Next: lesson {later[0].title}."
    return "This was the last lesson; progress() shows what is still open."


def on_solution_page() -> bool:
    """A solution is stored: there the page says why, and lessons are still added."""
    return os.environ.get("SIDEBYSIDE_PAGE") == "solution"


def reset(what: str | int | None = None) -> None:
    """Forget what is recorded of one exercise or guess, of lesson "03", or of all.

    The record as it was is copied first. The code in the cells stays as it is.
    """
    chosen = [] if what is None else lessons_numbered(str(what))
    numbers = {lesson.number for lesson in chosen}
    with changed_record() as record:
        ids = {id for table in record.values() for id in table}
        if what is not None:
            ids = {id for id in ids if id == what or number_of(id) in numbers}
        copy = keep_copy_of_record(record) if ids else ""
        for table in record.values():
            for id in ids & set(table):
                del table[id]
    if what is None:
        said = "All exercises and guesses are as on the first day."
    elif chosen:
        said = f"Lesson {full_number(str(what))} is as on the first day."
    elif ids or lesson_of(str(what)):
        said = f"{what} is as on the first day."
    else:
        print(unknown_exercise(what))
        return
    kept = f"\nWhat was recorded before is kept in {copy}." if copy else ""
    print(f"{said} The code in your cells stays.{kept}")


def unknown_exercise(id: object) -> str:
    """There is no such exercise; say which ids are near."""
    if new := REPLACED.get(str(id)):
        return f"{id} was replaced by {new}, in the newer copy of its lesson."
    if re.fullmatch(NUMBER, full_number(str(id))):
        return _unknown_lesson(id)
    ids = [known for lesson in lessons() for known in lesson.exercises]
    near = difflib.get_close_matches(str(id), ids, n=3)
    sentence = f'There is no exercise "{id}".'
    if near:
        either = '" or "'.join(near)
        return f'{sentence} Did you mean "{either}"?'
    return f"{sentence} progress() lists them all."


def _unknown_lesson(lesson: object) -> str:
    there = ", ".join(found.number for found in lessons())
    return f"There is no lesson {lesson}; there are: {there}."
