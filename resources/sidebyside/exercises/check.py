"""check, hint, solution: what a learner does with an exercise."""

import inspect
from dataclasses import dataclass
from textwrap import wrap

from sidebyside.course.lesson_format import lesson_of, solved
from sidebyside.course.record import changed_record, read_record
from sidebyside.exercises import cells
from sidebyside.exercises.expectations import NotYet, trying
from sidebyside.exercises.findings import NOT_STARTED, NOT_YET, PASSED, Finding
from sidebyside.exercises.judge import examine, exercise, find_exercise
from sidebyside.exercises.standing import next_after, unknown_exercise
from sidebyside.programs.passing import seconds_counted
from sidebyside.programs.showing import (
    in_notebook,
    on_solution_page,
    show_code,
    show_markdown,
)

__all__ = ["NotYet", "Verdict", "check", "exercise", "hint", "solution", "trying"]


@dataclass(frozen=True)
class Verdict:
    """What `check` says: `.state` is NOT STARTED, NOT YET, PASSED, TOO SLOW or HUNG."""

    id: str
    state: str
    message: str
    advice: str = ""  # what to think about

    def _ipython_display_(self) -> None:
        """`check` has shown the message: a last line does not show it again."""


def check(id: str, *answers: object) -> Verdict:
    """Try out the answers to an exercise, and say what came back.

    Never raises and always ends: the answers are run in a process that can be killed.
    """
    try:
        with seconds_counted(f"checking {id}"):
            verdict = _verdict_on_exercise(id, answers)
        if verdict.state != NOT_STARTED:
            _remember_exercise(verdict)
    except KeyboardInterrupt:
        came_back = "came back", "nothing: you interrupted the check"
        message = Finding(
            NOT_YET, [came_back], think="nothing yet: this is not recorded"
        )
        verdict = Verdict(id, NOT_YET, message.text(id))
    except Exception as error:
        fault = f"the check itself failed: {type(error).__name__}: {error}"
        message = Finding(NOT_YET, [("sorry", fault), ("", "a mistake of the course")])
        verdict = Verdict(id, NOT_YET, message.text(id))
    print(_wrapped(verdict.message))
    if verdict.state == PASSED and not on_solution_page():
        _show_what_follows(id)
    return verdict


def _verdict_on_exercise(id: str, answers: tuple) -> Verdict:
    if not isinstance(id, str):
        message = 'check(id, answer): the id comes first, as in check("03-name", name)'
        return Verdict(str(id), NOT_STARTED, message)
    found = find_exercise(id)
    if found is None:
        return Verdict(id, NOT_STARTED, unknown_exercise(id))
    try:
        inspect.signature(found.check).bind(*answers)
    except TypeError:
        return Verdict(
            id, NOT_STARTED, _how_to_call_check(id, found.check, len(answers))
        )
    if told := cells.new_code_not_run(id):
        return Verdict(id, NOT_STARTED, told)
    finding = examine(found, answers)
    for name in sorted(finding.unknown_names()):
        if told := cells.not_run_yet(name, lesson_of(id), cells.CHECK_AGAIN):
            return Verdict(id, NOT_STARTED, told)
    return Verdict(id, finding.state, finding.text(id), finding.think)


def _wrapped(message: str) -> str:
    """Broken between words, since JupyterLab breaks a line wherever it is full."""
    if not in_notebook() or on_solution_page():
        return message
    lines = []
    for line in message.splitlines():
        hanging = " " * 14 if line.startswith("  ") else ""
        lines += wrap(line, 100, subsequent_indent=hanging, break_long_words=False)
    return "\n".join(lines)


def _show_what_follows(id: str) -> None:
    """After PASSED: why it works, and what is next."""
    if lesson := lesson_of(id):
        if why := lesson.marked("why", id):
            show_markdown(why.text)
        show_markdown(next_after(id))


def _remember_exercise(verdict: Verdict) -> None:
    """Once passed stays passed, until `forget`; so do its tries and last advice."""
    with changed_record() as record:
        entry = record["exercises"].setdefault(verdict.id, {})
        if entry.get("state") != PASSED:
            entry["tries"] = entry.get("tries", 0) + 1
            entry["state"] = verdict.state
            if verdict.advice:
                entry["advice"] = verdict.advice


def _how_to_call_check(id: str, function, given: int) -> str:
    names = list(inspect.signature(function).parameters)
    call = ", ".join([f'"{id}"', *names])
    count = f"{len(names)} answer" + "s" * (len(names) != 1)
    return f"{id} takes {count}, not {given}: check({call})"


def hint(id: str) -> None:
    """Show the next of three hints: a question, an idea, almost the code."""
    lesson = lesson_of(id)
    hints = lesson.hints(id) if lesson else []
    if not hints:
        print(unknown_exercise(id) if lesson is None else f"{id} has no hints.")
        return
    with changed_record() as record:
        entry = record["exercises"].setdefault(id, {})
        seen = entry.get("hints", 0)
        place = seen % len(hints)
        entry["hints"] = seen + 1 if seen < len(hints) else 1
    what, text = hints[place].what, hints[place].text
    again = f"You have seen all {len(hints)} hints; here is the first again.\n\n"
    intro = again if seen >= len(hints) else ""
    show_markdown(f"{intro}*Hint {place + 1} of {len(hints)}: {what}*\n\n{text}")


def solution(id: str) -> None:
    """Show the code of the solution, and why it works."""
    lesson = lesson_of(id)
    if lesson is None:
        print(unknown_exercise(id))
        return
    if not read_record()["exercises"].get(id, {}).get("tries"):
        print(f'You have not tried {id} yet; hint("{id}") may be enough.')
    show_code(solved(lesson.code(id)))
    if why := lesson.marked("why", id):
        show_markdown(why.text)
