"""progress, forget and what comes next: where a learner stands in the course."""

import difflib
import re
from collections import Counter

from sidebyside.course.lesson_format import (
    NUMBER,
    Lesson,
    full_number,
    lesson_of,
    lessons,
    lessons_numbered,
    number_of,
)
from sidebyside.course.record import (
    PAUSE,
    changed_record,
    keep_copy_of_record,
    read_record,
)
from sidebyside.exercises.findings import NOT_STARTED, PASSED
from sidebyside.exercises.path_progress import (
    chosen_path,
    hours_and_minutes,
    minutes_left,
    progress_on_path,
)
from sidebyside.programs.showing import in_notebook, on_solution_page, show_markdown

# old copies of lessons still ask for these
REPLACED = {
    "09-reduce": "09-museum",
    "11a-replicas": "11a-stop",
    "15a-balance": "15a-gpipe",
    "16b-ring": "16c-merge",
}


def progress(what: str | int | None = None, done: int | None = None) -> None:
    """Show how far each lesson is, or each exercise of one lesson: progress("03").

    progress("eight_gpus_tomorrow") chooses a path, and shows what is left of it;
    with done=3 you say that you have done the first three steps.
    """
    chosen = lessons() if what is None else lessons_numbered(str(what))
    if not chosen:
        if re.match(r"\d", str(what)) or not lessons():
            print(_unknown_lesson(what))
        else:
            progress_on_path(str(what), done)
        return
    states = states_of_exercises(chosen)
    comes_next, current = next_of(chosen, states)
    first = max(len(found.title) for found in chosen)
    second = max(map(len, states), default=0)
    for found in chosen:
        counts = Counter(states[id].lower() for id in found.exercises)
        told = ", ".join(f"{n} {state}" for state, n in counts.items())
        print(f"{found.title:<{first}}  {told}")
        if what is not None or found == current:
            for id in found.exercises:
                print(f"    {id:<{second}}  {states[id]}")
    passed = list(states.values()).count(PASSED)
    print(f"\n{passed} of {len(states)} exercises passed")
    if what is None:
        print(time_spent())
        if path := chosen_path():
            print(f'{path.title}: {minutes_left(path)}, see progress("{path.name}")')
    if not on_solution_page():
        show_markdown(comes_next)


def time_spent() -> str:
    """A sentence that says how much time, and how it was counted."""
    spent = minutes_spent(read_record())
    return (
        f"Time spent: {spent}, between guesses, checks and hints at most {PAUSE} "
        f"minutes apart."
    )


def minutes_spent(record: dict) -> str:
    """ "3 h 20 min" """
    seconds = record["course"].get("time", {}).get("seconds", 0)
    return hours_and_minutes(seconds // 60)


def states_of_exercises(chosen: list[Lesson]) -> dict[str, str]:
    """The state of each exercise of these lessons, by id, in their order."""
    recorded = read_record()["exercises"]
    ids = [id for lesson in chosen for id in lesson.exercises]
    return {id: recorded.get(id, {}).get("state", NOT_STARTED) for id in ids}


def next_of(chosen: list[Lesson], states: dict[str, str]) -> tuple[str, Lesson | None]:
    """The exercise begun last, else an open one, first those after the last passed."""
    home = {id: lesson for lesson in chosen for id in lesson.exercises}
    ids = list(states)
    if begun := [id for id in ids if states[id] not in (NOT_STARTED, PASSED)]:
        id, lesson = begun[-1], home[begun[-1]]
        return f'Next: {_link(id, lesson)} again, and hint("{id}") helps.', lesson
    passed = [place for place, id in enumerate(ids) if states[id] == PASSED]
    last = max(passed, default=-1)
    later_first = ids[last + 1 :] + ids[:last]
    if still_open := [id for id in later_first if states[id] != PASSED]:
        lesson = home[still_open[0]]
        return (
            f"Next: {still_open[0]}, in lesson {_link(lesson.title, lesson)}.",
            lesson,
        )
    return _next_lesson(chosen[-1]), None


def _link(text: str, lesson: Lesson) -> str:
    """In a notebook a link to the lesson beside it; in a terminal plain text."""
    return f"[{text}]({lesson.name}.ipynb)" if in_notebook() else text


def next_after(id: str) -> str:
    """What follows a passed exercise: the next open one, or the next lesson."""
    [lesson] = [lesson for lesson in lessons() if id in lesson.exercises]
    states = states_of_exercises([lesson])
    later = lesson.exercises[lesson.exercises.index(id) + 1 :]
    if still_open := [other for other in later if states[other] != PASSED]:
        return f"Next: {still_open[0]}."
    return _next_lesson(lesson)


def _next_lesson(lesson: Lesson) -> str:
    later = [other for other in lessons() if other.name > lesson.name]
    if later:
        return f"Next: lesson {_link(later[0].title, later[0])}."
    return "This was the last lesson; progress() shows what is still open."


def forget(what: str | int | None = None) -> None:
    """Forget what is recorded about one exercise or guess, lesson "03", or everything.

    A copy of the old record is kept. The code in the cells stays as it is.
    """
    chosen = [] if what is None else lessons_numbered(str(what))
    numbers = {lesson.number for lesson in chosen}
    with changed_record() as record:
        tables = record["exercises"], record["guesses"]
        ids = {id for table in tables for id in table}
        if what is not None:
            ids = {id for id in ids if id == what or number_of(id) in numbers}
        copy = keep_copy_of_record(record) if ids else ""
        for table in tables:
            for id in ids & set(table):
                del table[id]
        if what is None:
            record["course"].clear()
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


reset = forget  # its old name, which IPython uses for a magic


def unknown_exercise(id: object) -> str:
    """A sentence that there is no such exercise, and which ids are near."""
    if new := REPLACED.get(str(id)):
        return f"{id} was replaced by {new}, in the newer copy of its lesson."
    if re.fullmatch(NUMBER, full_number(str(id))) or not lessons():
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
    if not there:  # installed from a wheel
        return (
            "Exercises need the course's folder: work in a clone of it, and run "
            "`pip install -r requirements.txt` there."
        )
    return f"There is no lesson {lesson}; there are: {there}."
