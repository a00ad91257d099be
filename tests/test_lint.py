"""Code, lessons and every other file keep the rules of the house."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lessons.source import build
from sidebyside.course.lesson_format import Lesson, lessons, parse_lesson
from tests import lesson_rules as rules
from tests import tiny_course as tiny

ROOT = build.ROOT
CHECKS = sorted(ROOT.glob("lessons/source/*/checks.py"))
SOLUTIONS = sorted(ROOT.glob("solutions/*.ipynb"))
# Where something is installed on one machine: nobody else has these folders. And that
# machine's name, which torchrun looks up: many have one that has no address.
MACHINE = re.compile(
    r"(?<![\w.}])/(?:work|root|home|Users)/[\w.]|torchrun (?!--local-addr|--nnodes)--\w"
)


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


def texts() -> list[tuple[Path, str]]:
    known = (".py", ".md", ".ipynb", ".toml", ".cfg", ".txt", ".json", ".svg", "")
    return [(p, p.read_text(encoding="utf-8")) for p in files() if p.suffix in known]


@pytest.mark.parametrize("arguments", ["check", "format --check --diff"])
def test_code_is_clean(arguments):
    command = [sys.executable, "-m", "ruff", *arguments.split(), "--no-cache", "."]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
@pytest.mark.parametrize("name", rules.RULES)
def test_lessons_keep_the_rule(lesson, name):
    found = list(rules.RULES[name](lesson))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_stored_pictures_are_explained(path):
    found = list(rules.unexplained_images(path))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_only_cells_with_an_output_ignore_it(path):
    found = list(rules.nothing_to_ignore(path))
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
    assert sum(path.stat().st_size for path in files()) < build.TOTAL_LIMIT


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
    of_rooms |= {"__init__.py", "conftest.py"}
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


# The rules themselves


@pytest.fixture
def source():
    def write(*replacements: tuple[str, str]) -> Lesson:
        text = tiny.SOURCE.replace("print(double(3))", 'check("90-double", double)')
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        return parse_lesson(tiny.NAME, text)

    return write


@pytest.mark.parametrize("name", rules.RULES)
def test_the_tiny_lesson_keeps_the_rule(source, name):
    assert list(rules.RULES[name](source())) == []


HINT_2 = """# <details><summary>Hint 2: an idea</summary>
#
# Add it to itself.
# </details>
"""
BREACHES = [
    ("1 / 0", "!ls", "a shell command or a magic"),
    ("1 / 0", "1 / 0;", "a semicolon"),
    ("1 / 0", "from math import *", "a star import"),
    ("1 / 0", "import matplotlib.pyplot as p", "pyplot"),
    ("1 / 0", "clear_output()", "an output that changes later"),
    ("1 / 0", "# NBVAL_IGNORE_OUTPUT\n1 / 0", "a comment for nbval"),
    ("1 / 0", "\n".join(["1 / 0"] * 21), "21 lines, more than 20"),
    ("1 / 0", "1 / 0\n\n# %%\n" * 30, "35 code cells, more than 30"),
    ("1 / 0", "import os\n\n1 / 0", "imports os before it is needed"),
    ("1 / 0", "1\n\n# %% [markdown]\n# See `os.name`.\n\n# %%\nimport os\n\n1", None),
    (
        "1 / 0",
        "import os\n\nos.name\n\n# %%\nimport os\n\nos.sep",
        "imports os a second time",
    ),
    ('["raises-exception"]', '["nbval-skip"]', "unknown tag nbval-skip"),
    (HINT_2, "", "has 2 hints, not 3"),
    ('check("90-double", double)', "double(3)", "has no check"),
    (' exercise="90-double"', "", "has no code cell"),
    ("# <!-- why: 90-double -->\n", "", "has 0 cells with its why"),
    ("# <!-- exercise: 90-double -->\n", "", "has 0 cells with its text"),
    ("90-double", "91-double", "does not begin with 90-"),
    ("# # 90. ", "# # 91. ", "the first cell does not begin with '# 90. '"),
    ("## What we saw", "## What we did", "no heading 'What we saw'"),
    ('["instructor"]', "[]", "no cell tagged instructor"),
    ("## Exercise 1", "### Exercise 1", "heading of level 3 after level 1"),
    ("Hint 2: an idea</summary>\n#\n", "Hint 2: an idea</summary>\n", "do not fold"),
    ("# Now by hand.", "# It is a\n# + b, by hand.", "no part of its paragraph: + b"),
    ("# Now by hand.", "# * One is\n#   1.5.\n# * Two", None),
    ("# Now by hand.", "# ```mermaid\n# graph LR\n# ```", "without accTitle"),
    ("# Now by hand.", "# ![](https://x.org/a.png)", "an image without a description"),
    (
        "# Now by hand.",
        "# [x](../demos/none.py)",
        "a link to nothing: ../demos/none.py",
    ),
    ("1 / 0", "1 / 0\n\n# %%\na.plot()\n\n# %%\n2", "a figure without a sentence"),
    ("# Now by hand.", "# [this](90_tiny.ipynb), [x](https://x.org/)", None),
    ("# Now by hand.", "# ```python\n# # a comment, no heading\n# ```", None),
]


@pytest.mark.parametrize(("old", "new", "message"), BREACHES)
def test_a_rule_bites(source, old, new, message):
    broken = source((old, new))
    found = [line for rule in rules.RULES.values() for line in rule(broken)]
    if message is None:
        assert found == []
    else:
        assert any(message in line for line in found), found
