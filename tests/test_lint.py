"""Code, lessons and every other file keep the rules of the house."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

from lessons.source import build
from sidebyside.course.lesson_format import lessons
from tests import lesson_rules as rules

ROOT = build.ROOT
CHECKS = sorted(ROOT.glob("lessons/source/*/checks.py"))
SOLUTIONS = sorted(ROOT.glob("solutions/*.ipynb"))
# Where something is installed on one machine: nobody else has these folders. And that
# machine's name, which torchrun looks up: many have one that has no address.
MACHINE = re.compile(
    r"(?<![\w.}])/(?:work|root|home|Users)/[\w.]|torchrun (?!--local-addr|--nnodes)--\w"
)


@cache
def files() -> list[Path]:
    """The files of the project: what git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if run.returncode == 0:
        paths = [ROOT / name for name in run.stdout.split("\0") if name]
    else:  # unpacked from an archive
        own = ".v", "my_lessons"  # an environment, and what a learner writes
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(part.startswith(own) for part in path.relative_to(ROOT).parts)
        ]
    return [path for path in paths if path.is_file()]


@cache
def texts() -> list[tuple[Path, str]]:
    known = (".py", ".md", ".ipynb", ".toml", ".cfg", ".txt", ".json", ".svg", "")
    return [(p, p.read_text(encoding="utf-8")) for p in files() if p.suffix in known]


@pytest.mark.parametrize("arguments", ["check", "format --check --diff"])
def test_code_is_clean(arguments):
    command = [sys.executable, "-m", "ruff", *arguments.split(), "--no-cache", "."]
    assert subprocess.run(command, cwd=ROOT).returncode == 0


@pytest.mark.everything
@pytest.mark.skipif(torch.__version__ >= "2.14", reason="torch 2.14 refuses p.grad")
def test_instruments_and_subject_hold_what_their_annotations_promise():
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    assert subprocess.run(command, cwd=ROOT).returncode == 0


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
@pytest.mark.parametrize("name", rules.RULES)
def test_lessons_keep_the_rule(lesson, name):
    found = list(rules.RULES[name](lesson))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_stored_pictures_are_explained_and_only_an_output_is_ignored(path):
    found = [*rules.unexplained_images(path), *rules.nothing_to_ignore(path)]
    assert not found, "\n".join(found)


def test_no_file_needs_a_folder_or_the_name_of_one_machine():
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in texts()
        if path.name != "sanitize.cfg"
        for match in MACHINE.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_only_small_files_are_kept():
    large = [path for path in files() if path.stat().st_size > build.NOTEBOOK_LIMIT]
    assert large == []
    assert sum(path.stat().st_size for path in files()) < 10_000_000


def test_colours_are_named_in_one_place():
    """In figures.py; the report's page has those of its letters, in CSS."""
    own = {"figures.py", "report_page.py"}
    layers = [ROOT / "resources", ROOT / "demos", ROOT / "lessons"]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in texts()
        if path.suffix == ".py" and path.name not in own
        if any(path.is_relative_to(layer) for layer in layers)
        for match in re.finditer(r"[\"']#[0-9A-Fa-f]{6}[\"']", text)
    ]
    assert not found, "\n".join(found)


def test_every_module_has_a_name_of_its_own():
    """But for those of each room, and a demo and the module that it shows."""
    of_rooms = {"lesson.py", "checks.py", "answers.py", "test_lesson.py"}
    of_rooms |= {"__init__.py", "conftest.py", "build.py"}  # of lessons, of the site
    python = [path.relative_to(ROOT) for path in files() if path.suffix == ".py"]
    shown = {Path("demos", *path.parts[2:]) for path in python}
    names = [path.name for path in python if path not in shown]
    assert {name for name in names if names.count(name) > 1} <= of_rooms


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.parent.name)
def test_no_check_is_a_wall(path):
    functions = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = [part for part in functions if isinstance(part, ast.FunctionDef)]
    walls = {f.name: own_lines(f) for f in functions if own_lines(f) > 40}
    assert not walls


def own_lines(function: ast.FunctionDef) -> int:
    """Its lines without those of the functions inside it, methods too."""
    bodies = [function.body]
    bodies += [part.body for part in function.body if isinstance(part, ast.ClassDef)]
    inner = (part for body in bodies for part in body)
    inner = [part for part in inner if isinstance(part, ast.FunctionDef)]
    lines = function.end_lineno - function.lineno + 1
    return lines - sum(part.end_lineno - part.lineno + 1 for part in inner)
