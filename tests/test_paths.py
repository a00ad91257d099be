"""What paths, map and hours say is what the lessons and the programs say."""

import difflib
import re
from functools import cache

import pytest

from sidebyside.course.lesson_format import full_number, lesson_of, lessons, number_of
from sidebyside.course.paths import paths
from sidebyside.course.record import ROOT
from sidebyside.exercises.first_page import first_page

README = (ROOT / "README.md").read_text(encoding="utf-8")
LESSONS = {lesson.number: lesson for lesson in lessons()}
PATHS = {path.name: path for path in paths()}
PARTS = {"I": "08", "II": "13", "III": "18", "IV": "99"}  # each ends before this one


def page(name: str) -> str:
    return (ROOT / f"resources/paths/{name}.md").read_text(encoding="utf-8")


def in_words(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return f"{hours} hours {rest} minutes" if minutes > 200 else f"{minutes} minutes"


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_minutes_of_a_path_add_up_to_what_its_page_and_the_readme_say(path):
    assert f"The path takes {in_words(path.minutes)}." in page(path.name)
    row = f"[{path.title}](resources/paths/{path.name}.md) | {in_words(path.minutes)} |"
    assert row in README


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_each_step_leads_to_a_page_or_a_cell_and_its_exercises_are_in_that_lesson(path):
    for step in path.steps:
        assert step.links, step
        for link in step.links:
            assert link.heading or link.lesson is None or path.name == "the_whole", step
        for id in step.exercises:
            assert lesson_of(id), f"no exercise {id}"
            assert number_of(id) in {link.lesson for link in step.links}, step


def test_every_page_there_is_a_path():
    assert {file.stem for file in ROOT.glob("resources/paths/*.md")} == set(PATHS)


# A script for one GPU, beside its DDP form --------------------------------------------


def code_of(name: str) -> list[str]:
    """The lines below the docstring."""
    text = (ROOT / f"demos/ddp/{name}.py").read_text(encoding="utf-8")
    return text.split('"""\n', 1)[1].splitlines()


def test_the_page_names_every_line_in_which_the_ddp_form_differs():
    blocks = re.findall(r"```diff\n(.*?)```", page("eight_gpus_tomorrow"), re.DOTALL)
    differences = difflib.ndiff(code_of("one_gpu"), code_of("own_ddp"))
    assert "".join(blocks).splitlines() == [x for x in differences if x[0] in "-+"]


# Hours, and what needs what -----------------------------------------------------------


@cache
def opening(number: str) -> tuple[str, str]:
    """What its first cell says of the lessons before it, and of the time it takes."""
    lesson = LESSONS[number]
    text = "".join(cell.text for cell in lesson.cells if "*Before this:*" in cell.text)
    found = re.search(r"\*Before this:\*(.*?)\*Time:\*(.*?)\*Needs:", text, re.DOTALL)
    return found.groups() if found else ("", lesson.head["minutes"])


def minutes(number: str) -> int:
    """To read it, as measured, and for its exercises."""
    _, told = opening(number)
    reading = LESSONS[number].reading_minutes if "{reading}" in told else 0
    return reading + sum(map(int, re.findall(r"\b\d+\b", told)))


def before(number: str) -> set[str]:
    named = re.findall(r"\b\d+[a-z]?\b", opening(number)[0])
    return {full_number(name) for name in named}


@cache
def all_before(number: str) -> set[str]:
    return before(number).union(*map(all_before, before(number)))


def part_of(number: str) -> str:
    return next(part for part, end in PARTS.items() if number < end)


def test_the_map_shows_each_lesson_with_its_minutes_and_what_it_needs():
    """A diagram for each part; an arrow that follows from others is left out."""
    nodes = re.findall(r'L(\w+)\["(\w+) .+<br>(\d+) min"\]', README)
    assert nodes == [(number, number, str(minutes(number))) for number in LESSONS]
    assert re.findall(r"L(\w+) --> L(\w+)", README) == [
        (first, number)
        for part in PARTS
        for first in LESSONS
        for number in LESSONS
        if part_of(number) == part
        and first in before(number)
        and not any(first in all_before(other) for other in before(number))
    ]


def test_the_hours_of_each_part_are_those_of_its_lessons():
    for part in PARTS:
        hours = (
            sum(minutes(number) for number in LESSONS if part_of(number) == part) / 60
        )
        assert re.search(rf"### Part {part}: .+, {hours:.0f} hours\n", README)
        assert re.search(rf"\| {part}: .* {hours:.1f} \|", page("the_whole"))


def test_the_first_page_has_the_map_of_each_part_above_its_lessons():
    page = first_page()
    for number, lesson in LESSONS.items():
        assert page.index(f'L{number}["') < page.rindex(f"({lesson.name}.ipynb) | ")


def test_the_whole_names_each_lesson_with_its_minutes_and_its_exercises():
    assert [
        (step.links[0].lesson, step.minutes, list(step.exercises))
        for step in PATHS["the_whole"].steps
    ] == [(number, minutes(number), LESSONS[number].exercises) for number in LESSONS]
