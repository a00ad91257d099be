"""A path's page is read as it is written."""

from sidebyside.course.paths import CoursePath, Link, Step, parse_path

PAGE = """# Eight GPUs tomorrow

*One evening.* For people with a script, see [06](../../lessons/06_overheads.ipynb).

| symptom | tool |
|---|---|
| 7 | none |

| minutes | where | what you do there |
|---|---|---|
| 6 | [10b](../../lessons/10b_cost.ipynb#The-ring%3F), [map](m.md) | run \\| [do](a) |
| 10 | [a page](../checklists/hang.md) | read |
| 15 | exercise `11a-step` in [11a](../../lessons/11a_ddp.ipynb), `torch` | `11a-stop` |

That is half an hour.
"""
STEPS = [
    Step(6, "{}, {}", "run \\| do", (
        Link("10b", "lessons/10b_cost.ipynb#The-ring%3F", "10b", "The-ring?"),
        Link("map", "resources/paths/m.md", None, ""),
    ), ()),
    Step(10, "{}", "read",
         (Link("a page", "resources/checklists/hang.md", None, ""),), ()),
    Step(15, "exercise `11a-step` in {}, `torch`", "`11a-stop`",
         (Link("11a", "lessons/11a_ddp.ipynb", "11a", ""),), ("11a-step", "11a-stop")),
]  # fmt: skip


def test_a_page_is_read_as_it_is_written():
    path = parse_path("eight", PAGE)
    assert path == CoursePath("eight", "Eight GPUs tomorrow", STEPS)
    assert path.minutes == 31
    assert parse_path("map", "# The map\n").steps == []
