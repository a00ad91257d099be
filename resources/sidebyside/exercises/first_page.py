"""The first page of a learner's folder: next step, paths and lessons with ticks."""

import re

from sidebyside.course.lesson_format import Lesson, lessons
from sidebyside.course.paths import FOLDER, CoursePath, paths
from sidebyside.course.record import ROOT
from sidebyside.exercises.findings import PASSED
from sidebyside.exercises.path_progress import (
    RULE,
    chosen_path,
    link_to,
    minutes_left,
    open_steps,
)
from sidebyside.exercises.standing import next_of, states_of_exercises, time_spent

PAGE = """# Where you are

**Next: {next}**

{passed} of {exercises} exercises passed. {time}

`sidebyside` writes this page when it starts. In a lesson, `progress()` says where you
are now.

## Paths by goal

{paths}

{rule} In a lesson, `progress("{name}")` chooses a path and shows it. A link opens its
lesson; click the link once more to reach the heading.

## Lessons

An arrow leads from a lesson to one that needs it; lessons of other parts are round.

{lessons}
"""


def first_page() -> str:
    """The page as Markdown, for the folder of the learner's lessons."""
    states = states_of_exercises(lessons())
    chosen, all_paths = chosen_path(), paths()
    return PAGE.format(
        next=_next_on_page(chosen, states),
        passed=list(states.values()).count(PASSED),
        exercises=len(states),
        time=time_spent(),
        paths="\n".join(_path_on_page(path, chosen) for path in all_paths),
        rule=RULE,
        name=all_paths[0].name if all_paths else "",
        lessons=_lessons_on_page(states),
    )


def _next_on_page(chosen: CoursePath | None, states: dict[str, str]) -> str:
    if chosen and (still_open := open_steps(chosen)):
        return f"{link_to(still_open[0])}, on the path *{chosen.title}*"
    _, lesson = next_of(lessons(), states)
    return _link_to_lesson(lesson) if lesson else "all exercises are passed"


def _path_on_page(path: CoursePath, chosen: CoursePath | None) -> str:
    """What is left of a path; its steps are folded, unless it is the chosen path."""
    still_open = open_steps(path)
    rows = [
        f"| {' ' if step in still_open else '✓'} | {step.minutes} | {link_to(step)} "
        f"| {step.text} |"
        for step in path.steps
    ]
    return "\n".join(
        [
            f"<details{' open' * (path == chosen)}><summary><b>{path.title}</b>: "
            f"{minutes_left(path)}</summary>\n",
            f"[The page of this path](../{FOLDER}/{path.name}.md)\n",
            "| | minutes | where | what you do there |",
            "|---|---|---|---|",
            *rows,
            "\n</details>",
        ]
    )


def _lessons_on_page(states: dict[str, str]) -> str:
    """The rows of each part, below its heading and its map, which the README has."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    maps = re.findall(r"^### Part .*?^```mermaid$.*?^```$", readme, re.M | re.S)
    heads = {re.findall(r'L(\w+)\["', each)[0]: each for each in maps}
    rows = []
    for lesson in lessons():
        if lesson.number in heads:
            columns = "| | lesson | the question | exercises |\n|---|---|---|---|"
            rows.append(f"\n{heads[lesson.number]}\n\n{columns}")
        passed = [states[id] for id in lesson.exercises].count(PASSED)
        count = len(lesson.exercises)
        tick = "✓" if count and passed == count else " "
        rows.append(
            f"| {tick} | {_link_to_lesson(lesson)} | {lesson.head.get('question', '')} "
            f"| {passed} of {count} |"
        )
    return "\n".join(rows)


def _link_to_lesson(lesson: Lesson) -> str:
    return f"[{lesson.title}]({lesson.name}.ipynb)"
