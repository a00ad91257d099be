"""`-k 17b` also runs the tests of the modules that lesson 17b imports."""

from collections import defaultdict

import pytest

from sidebyside.course.lesson_format import number_of, rooms
from tests.test_layers import LESSON_OF, imported_by

lessons_of: defaultdict[str, set[str]] = defaultdict(set)  # those that import a module
for lesson in rooms():
    for name in imported_by(lesson / "lesson.py"):
        lessons_of[".".join(name.split(".")[:3])].add(number_of(lesson.name))


def pytest_itemcollected(item: pytest.Item) -> None:
    room, module = item.path.parent.name, item.path.stem.removeprefix("test_")
    lessons = lessons_of[f"parallel_by_hand.{room}.{module}"] or {LESSON_OF[room]}
    item.extra_keyword_matches |= lessons
