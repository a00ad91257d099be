"""Old names of modules lead to the new: in learners' copies, and where imported."""

import ast
import importlib.util
import re

import nbformat
import pytest
from nbformat import v4

from sidebyside.__main__ import update_in_words
from sidebyside.course.lesson_format import lessons
from sidebyside.course.moved import (
    OF_INSTRUMENTS,
    TO_ANOTHER_ROOM,
    new_name,
    rewritten,
)
from sidebyside.course.own_copies import REPLACED, update_own_copies
from sidebyside.course.record import ROOT

NEW = re.compile(r"\bparallel_by_hand\.\w+\.\w+|\blessons\.props\.\w+")
ONE_BY_ONE = re.compile(r"^from ([\w.]+) import \(?([\w, \n]+?)\)?$", re.MULTILINE)
NAMES = [lesson.name for lesson in lessons()]


def old_name(found: re.Match) -> str:
    """What the module was called when demos had parts."""
    before = {new: old for old, new in TO_ANOTHER_ROOM.items()}
    group, name = before.get(found[0], found[0].partition(".")[2]).split(".")
    is_demo = (ROOT / f"demos/{group}/{name}.py").exists()
    return f"demos.{group}.{name}" if is_demo else f"demos.{group}.parts.{name}"


def as_it_was(code: str) -> str:
    """The code of a lesson with the old names, an import for each module."""

    def apart(found: re.Match) -> str:
        package, names = found.groups()
        if package.count(".") > (package.startswith("lessons")):
            return found[0]  # from a module
        olds = [NEW.sub(old_name, f"{package}.{n}") for n in re.findall(r"\w+", names)]
        return "\n".join(
            "from {} import {}".format(*old.rsplit(".", 1)) for old in olds
        )

    return NEW.sub(old_name, ONE_BY_ONE.sub(apart, code))


def imported(code: str) -> set[tuple[str, str]]:
    nodes = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.ImportFrom)]
    return {(node.module, alias.name) for node in nodes for alias in node.names}


def code_of(path) -> list[str]:
    cells = nbformat.read(path, 4).cells
    return [cell.source for cell in cells if cell.cell_type == "code"]


def test_a_worked_copy_of_each_lesson_imports_what_the_lesson_does(tmp_path):
    """The copy was made before modules were moved, and an answer is written in it."""
    own, before = tmp_path / "my_lessons", {}
    own.mkdir()
    for name in NAMES:
        notebook = nbformat.read(ROOT / f"lessons/{name}.ipynb", 4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.source = as_it_was(cell.source)
        notebook.cells.append(v4.new_code_cell("my = 'answer'"))
        nbformat.write(notebook, own / f"{name}.ipynb")
        before[name] = (own / f"{name}.ipynb").read_bytes()
    update = update_own_copies(ROOT / "lessons", own)
    old = [name for name in NAMES if b"demos." in before[name]]
    assert set(update.renamed) <= set(old) and len(update.renamed) > 25
    said = "\n".join(update_in_words(update, ROOT))
    assert "Modules have new names; your cells now import those: 01, " in said
    assert f"are in my_lessons/{REPLACED}." in said
    for name in NAMES:
        lesson, copy = code_of(ROOT / f"lessons/{name}.ipynb"), own / f"{name}.ipynb"
        *mine, answer = code_of(copy)
        assert answer == "my = 'answer'"
        for theirs, ours in zip(lesson, mine, strict=True):
            assert imported(ours) == imported(theirs)
        kept = own / REPLACED / f"{name}.ipynb"
        assert kept.exists() == (name in update.renamed)
        assert (kept if kept.exists() else copy).read_bytes() == before[name]
    assert not update_own_copies(ROOT / "lessons", own).renamed


def test_text_that_names_files_and_modules_is_rewritten():
    old = "see `demos/sharding/parts/zero_3.py`; python -m demos.gil.parts.thread_turns"
    assert rewritten(old) == (
        "see `resources/parallel_by_hand/sharding/zero_3.py`; "
        "python -m lessons.props.the_gil"
    )
    others = (
        "demos/gil/sleeping_threads.py, demos.gil.sleeping_threads, demos.mine.parts.x"
    )
    assert rewritten(others) == others


@pytest.mark.parametrize("place", TO_ANOTHER_ROOM.values())
def test_the_new_place_is_there(place):
    assert importlib.import_module(place)


@pytest.mark.parametrize("module", ["pipeline.schedules", "gil.thread_turns"])
def test_an_old_import_says_where_the_module_is_now(module):
    group, name = module.split(".")
    with pytest.raises(ImportError, match=rf"is now {new_name(group, name)}: import"):
        importlib.import_module(f"demos.{group}.parts.{name}")


def test_an_instrument_that_a_copy_imports_by_its_module_is_found():
    for old in OF_INSTRUMENTS:
        module = rewritten(f"from sidebyside.{old} import x").split()[1]
        assert importlib.util.find_spec(module)
