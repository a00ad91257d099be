"""A path's page is read as it is written, and leads to what is there."""

import pytest

from sidebyside.course.lesson_format import lessons
from sidebyside.course.paths import CoursePath, Step, parse_path, paths
from sidebyside.course.record import ROOT
from sidebyside.exercises.path_progress import section_of

PAGE = """# Eight GPUs tomorrow

*One evening.* For people with a script, see [06](../../lessons/06_overheads.ipynb).

| symptom | tool |
|---|---|
| 7 | none |

| minutes | where | what you do there |
|---|---|---|
| 6 | [10b, The ring](../../lessons/10b_cost.ipynb#The-ring%3F) | run \\| do, [so](a) |
| 10 | [a page](../checklists/hang.md) | read |
| 15 | exercise `11a-step` in [11a](../../lessons/11a_ddp.ipynb), `torch` | `11a-stop` |

That is half an hour.
"""
STEPS = [
    Step(6, "10b, The ring", "run \\| do, so", "lessons/10b_cost.ipynb#The-ring%3F",
         "10b", "The-ring?", ()),
    Step(10, "a page", "read", "resources/checklists/hang.md", None, "", ()),
    Step(15, "exercise `11a-step` in 11a, `torch`", "`11a-stop`",
         "lessons/11a_ddp.ipynb", "11a", "", ("11a-step", "11a-stop")),
]  # fmt: skip


def test_a_page_is_read_as_it_is_written():
    path = parse_path("eight", PAGE)
    assert path == CoursePath("eight", "Eight GPUs tomorrow", STEPS)
    assert path.minutes == 31
    assert parse_path("map", "# The map\n").steps == []


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.name)
def test_the_steps_of_a_path_name_what_is_there(path):
    exercises = {id for lesson in lessons() for id in lesson.exercises}
    for step in path.steps:
        assert step.link and (ROOT / step.link.partition("#")[0]).exists(), step
        assert not step.lesson or section_of(step), step
        assert {*step.exercises} <= exercises, step
