"""Imports point one way, and a part of the library needs nothing that comes later."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import parallel_by_hand
from sidebyside.course.record import ROOT

LIBRARY = ROOT / "resources/parallel_by_hand"
ROOMS = re.findall(r"^    (\w+) +(\d\d[a-z]?) ", parallel_by_hand.__doc__, re.MULTILINE)
ORDER = [room for room, _ in ROOMS]
LESSON_OF = dict(ROOMS)
IN_ROOM = re.compile(r"sidebyside\.\w+").match
FORBIDDEN = {
    "resources/sidebyside": {"parallel_by_hand", "demos", "lessons.props"},
    "resources/parallel_by_hand": {"demos", "lessons"},
    "demos": {"demos", "lessons"},  # another demo is a program, no module
}


@cache
def imported_by(path: Path) -> set[str]:
    """The modules that a file imports, also inside functions, by their full names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_a_layer_imports_none_above_it(layer):
    against = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / layer).rglob("*.py")
        for module in imported_by(path)
        if any(is_in(module, package) for package in FORBIDDEN[layer])
    ]
    assert not against, "\n".join(against)


def test_the_library_lists_its_rooms_in_the_order_of_the_lessons():
    there = [path.parent.name for path in LIBRARY.glob("*/__init__.py")]
    assert sorted(ORDER) == sorted(there)
    numbers = [LESSON_OF[room] for room in ORDER]
    assert numbers == sorted(numbers)


def test_a_room_imports_from_rooms_above_it():
    """So there is no circle between rooms, and no arrow to a later lesson."""
    against = [
        f"{path.relative_to(LIBRARY)} imports {module}"
        for path in LIBRARY.glob("*/*.py")
        for module in imported_by(path)
        if is_in(module, "parallel_by_hand")
        if ORDER.index(module.split(".")[1]) > ORDER.index(path.parent.name)
    ]
    assert not against, "\n".join(against)


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("lessons/source/*/lesson.py")), ids=str
)
def test_a_lesson_imports_what_has_been_introduced(path):
    number = path.parent.name.partition("_")[0]
    later = [
        module
        for module in imported_by(path)
        if is_in(module, "parallel_by_hand")
        if LESSON_OF[module.split(".")[1]] > number
    ]
    assert not later


def test_props_are_those_of_one_lesson():
    users: dict[str, set[str]] = {}
    for path in ROOT.glob("lessons/source/*/*.py"):
        for module in imported_by(path):
            if is_in(module, "lessons.props"):
                users.setdefault(module.split(".")[2], set()).add(path.parent.name)
    assert all(len(lessons) == 1 for lessons in users.values()), users


def test_launching_ranks_knows_nothing_of_lessons_or_learners():
    imported = "import sys, sidebyside.ranks.launch; print(*sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", imported], capture_output=True, text=True, check=True
    )
    rooms = {name.split(".")[1] for name in shown.stdout.split() if IN_ROOM(name)}
    assert rooms == {"ranks", "programs", "timeline"}
