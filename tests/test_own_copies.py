"""An update never costs a learner any work, and brings all that is new."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbformat import v4

from lessons.source.execution import at_free_ports
from sidebyside import __main__ as command
from sidebyside.course.own_copies import (
    Update,
    lesson_in_hand,
    new_sections,
    restore_own_copy,
    update_own_copies,
    write_whole,
)
from sidebyside.course.record import ROOT, changed_record

NOTHING = Update([], [], [], [], [], [], [])


def write(path: Path, *cells: str, **metadata: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = [v4.new_code_cell(cell, id=f"cell-{n}") for n, cell in enumerate(cells)]
    nbformat.write(v4.new_notebook(cells=made, metadata=metadata), path)
    return path


def run_cells(path: Path, time: str = "2026-09-01T10:00:00.000000Z") -> None:
    """What JupyterLab writes when a learner opens a notebook and runs its cells."""
    notebook = nbformat.read(path, 4)
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.7"}
    for cell in notebook.cells:
        cell.execution_count = 1
        cell.outputs = [v4.new_output("stream", text="mine")]
        cell.metadata["execution"] = {"iopub.execute_input": time}
    notebook.cells.append(v4.new_code_cell("\n"))  # Shift+Enter on the last one
    nbformat.write(notebook, path)


@pytest.fixture
def course(tmp_path):
    """The lessons of a course, and beside them what is no lesson."""
    course = tmp_path / "clone" / "lessons"
    for name in "00_start", "03_gil", "10a_ring", "10b_cost":
        write(course / f"{name}.ipynb", f"print('{name}')")
    write(course / "Untitled.ipynb", "draft")
    (course / "source").mkdir()
    return course


@pytest.fixture
def own(course, tmp_path):
    """The copies of a learner who has begun: nothing is changed yet."""
    own = tmp_path / "clone" / "my_lessons"
    update_own_copies(course, own)
    return own


def test_the_first_time_all_lessons_come_in_order_and_nothing_else(course, tmp_path):
    update = update_own_copies(course, tmp_path / "my_lessons")
    assert update.new == ["00_start", "03_gil", "10a_ring", "10b_cost"]
    visible = [p.stem for p in sorted((tmp_path / "my_lessons").glob("[!.]*"))]
    assert visible == update.new
    assert update_own_copies(course, tmp_path / "my_lessons") == NOTHING


def test_a_copy_that_was_only_run_is_replaced(course, own):
    run_cells(own / "03_gil.ipynb")
    assert update_own_copies(course, own) == NOTHING, "the outputs stay till then"
    assert "mine" in (own / "03_gil.ipynb").read_text()
    newer = write(course / "03_gil.ipynb", "print('better')")
    assert update_own_copies(course, own).replaced == ["03_gil"]
    assert (own / "03_gil.ipynb").read_bytes() == newer.read_bytes()
    assert "mine" in (own / "replaced/03_gil.ipynb").read_text()


def test_an_answer_in_the_courses_own_file_is_not_lost(course, own):
    """The copy has the answer, is as it was copied, and so counts as unchanged."""
    lesson = course / "03_gil.ipynb"
    as_published = lesson.read_bytes()
    for answer in "one", "two":
        write(lesson, answer)
        update_own_copies(course, own)
        lesson.write_bytes(as_published)  # git checkout lessons
        assert update_own_copies(course, own).replaced == ["03_gil"]
    kept = [path.read_text() for path in (own / "replaced").glob("03_gil*.ipynb")]
    assert all(any(answer in text for text in kept) for answer in ("one", "two"))


def test_a_changed_copy_is_kept_and_named_until_it_is_restored(course, own):
    write(own / "03_gil.ipynb", "my answer")
    mine = (own / "03_gil.ipynb").read_bytes()
    assert update_own_copies(course, own) == NOTHING, "the course has nothing newer"
    write(course / "03_gil.ipynb", "print('better')")
    for _ in range(2):
        assert update_own_copies(course, own) == NOTHING._replace(kept=["03_gil"])
        assert (own / "03_gil.ipynb").read_bytes() == mine
    restore_own_copy(course / "03_gil.ipynb", own)
    assert update_own_copies(course, own) == NOTHING
    write(course / "03_gil.ipynb", "print('best')")
    assert update_own_copies(course, own).replaced == ["03_gil"]


def test_what_a_restored_copy_was_is_kept_every_time(course, own):
    lesson, copy = course / "03_gil.ipynb", own / "03_gil.ipynb"
    assert restore_own_copy(lesson, own) is None, "nothing to keep"
    for answer, name in ("one", "-before-restore"), ("two", "-before-restore-2"):
        write(copy, answer)
        assert restore_own_copy(lesson, own) == own / f"03_gil{name}.ipynb"
        assert copy.read_bytes() == lesson.read_bytes()
    assert "one" in (own / "03_gil-before-restore.ipynb").read_text()
    assert "two" in (own / "03_gil-before-restore-2.ipynb").read_text()
    assert update_own_copies(course, own) == NOTHING


def test_a_lesson_that_left_the_course_goes_unless_it_was_changed(course, own):
    write(own / "10a_ring.ipynb", "my answer")
    for name in "10a_ring", "10b_cost":
        (course / f"{name}.ipynb").unlink()
    gone = NOTHING._replace(removed=["10b_cost"], left=["10a_ring"])
    assert update_own_copies(course, own) == gone
    assert (own / "10a_ring.ipynb").exists()
    assert not (own / "10b_cost.ipynb").exists()
    assert (own / "replaced/10b_cost.ipynb").exists()
    assert lesson_in_hand(course, own) is None, "the course goes on"
    assert update_own_copies(course, own) == NOTHING, "it is said once"


def test_a_copy_that_was_deleted_comes_back(course, own):
    (own / "03_gil.ipynb").unlink()
    assert update_own_copies(course, own).new == ["03_gil"]


@pytest.mark.parametrize("broken", ["", '{"03_gil.ipynb": 3}'])
def test_without_a_record_nothing_of_the_learners_is_replaced(course, own, broken):
    (own / ".copied.json").write_text(broken)
    run_cells(own / "10a_ring.ipynb")
    write(own / "03_gil.ipynb", "my answer")
    assert update_own_copies(course, own) == NOTHING._replace(kept=["03_gil"])
    assert "my answer" in (own / "03_gil.ipynb").read_text()


@pytest.mark.parametrize("broken", ["<<<<<<< HEAD", '{"cells": [1]}'])
def test_a_copy_that_is_no_notebook_is_kept(course, own, broken):
    (own / "03_gil.ipynb").write_text(broken)
    write(course / "03_gil.ipynb", "print('better')")
    assert update_own_copies(course, own).kept == ["03_gil"]
    assert (own / "03_gil.ipynb").read_text() == broken


def test_the_lesson_whose_cells_ran_last_is_in_hand(course, own):
    """Tabs that are open are saved, too: a file's date says little."""
    assert lesson_in_hand(course, own) is None
    for seconds, name in (2, "03_gil"), (1, "10a_ring"):
        os.utime(write(own / f"{name}.ipynb", "my answer"), (seconds, seconds))
    assert lesson_in_hand(course, own) == "03_gil.ipynb", "no cell was run"
    for minute, name in (1, "10a_ring"), (2, "10b_cost"), (0, "03_gil"):
        run_cells(own / f"{name}.ipynb", f"2026-09-01T10:0{minute}:00.000000Z")
    assert lesson_in_hand(course, own) == "10b_cost.ipynb"


def test_the_heading_above_the_cell_that_ran_last_is_told(sidebyside, course):
    sidebyside()
    copy = course.parent / "my_lessons/03_gil.ipynb"
    cells = []
    for minute, heading in (1, "Before"), (2, "Here"), (0, "After"):
        cells += [v4.new_markdown_cell(f"## {heading}"), v4.new_code_cell("1")]
        time = {"iopub.execute_input": f"2026-09-01T10:0{minute}:00.000000Z"}
        cells[-1].metadata["execution"] = time
    nbformat.write(v4.new_notebook(cells=cells), copy)
    assert sidebyside()[0].startswith("In 03 you ran a cell last under: Here.\n")


def test_what_is_new_in_a_kept_lesson_is_told_by_its_headings(tmp_path):
    def notebook(name: str, **sources: str) -> Path:
        make = {True: v4.new_markdown_cell, False: v4.new_code_cell}
        cells = [make[s[:1] == "#"](s, id=id) for id, s in sources.items()]
        nbformat.write(v4.new_notebook(cells=cells), tmp_path / name)
        return tmp_path / name

    mine = notebook("mine.ipynb", a="# One", b="answer", c="# Two", d="moved", e="")
    newer = {"a": "# One", "x": "moved", "b": "stub", "c": "# Two", "y": "new"}
    newer = notebook("newer.ipynb", **newer, z="## Three")
    assert new_sections(newer, mine) == ["Two", "Three"]


# The command ------------------------------------------------------------------


@pytest.fixture
def sidebyside(course, monkeypatch, capsys):
    """Calls the command in the made course; returns what it says and launches."""
    monkeypatch.setenv("JUPYTER_PATH", str(course.parent / "others"))

    def call(*arguments: str) -> tuple[str, list[str]]:
        launched = []
        monkeypatch.chdir(course.parent)
        monkeypatch.setattr(command, "ROOT", course.parent)
        monkeypatch.setattr(command, "jupyterlab", lambda: launched.extend)
        monkeypatch.setattr(sys, "argv", ["sidebyside", *arguments])
        command.main()
        return capsys.readouterr().out, launched

    return call


def test_it_opens_the_first_page_then_the_lesson_in_hand_or_the_one_asked_for(
    sidebyside, course
):
    root = str(course.parent)
    own = course.parent / "my_lessons"
    said, launched = sidebyside()
    assert said == "New in my_lessons: 00, 03, 10a, 10b.\n"
    assert launched == ["--notebook-dir", root, str(own / "00_first_page.md")]
    write(own / "03_gil.ipynb", "my answer")
    said, launched = sidebyside("--no-browser", "--", "--allow-root")
    assert said.startswith("All lessons, paths by goal, and where you are: my_lessons/")
    options = "--no-browser", "--allow-root"
    assert launched[2:] == [str(own / "03_gil.ipynb"), *options]
    assert sidebyside("10")[1][2:] == [str(own / "10a_ring.ipynb")]
    assert sidebyside("0")[1][2:] == [str(own / "00_start.ipynb")]


def test_a_kept_copy_is_said_in_a_sentence_that_names_the_way_out(sidebyside, course):
    own = course.parent / "my_lessons"
    sidebyside("--no-open")
    write(own / "03_gil.ipynb", "my answer")
    write(course / "03_gil.ipynb", "print('better')")
    said, _ = sidebyside("--no-open")
    assert "Kept as you changed them, though the course has newer ones: 03." in said
    assert "`sidebyside --restore NN` takes the newer one" in said
    said, launched = sidebyside("--restore", "3")
    assert "Yours is kept beside it as 03_gil-before-restore.ipynb." in said
    assert launched == []


@pytest.mark.skipif(os.name == "nt", reason="Windows quotes in another way")
def test_what_it_says_to_type_works_without_an_activated_environment(monkeypatch):
    """It is called by its path, as the README says, or as a module."""
    kept = NOTHING._replace(kept=["03_gil"])
    monkeypatch.setattr(sys, "argv", [".venv/bin/sidebyside", "03"])
    (said,) = command.update_in_words(kept, ROOT)
    assert "`.venv/bin/sidebyside --restore NN` takes" in said
    (said,) = command.update_in_words(kept, Path("ada b"))
    assert "sidebyside --restore NN --folder 'ada b'` takes" in said
    monkeypatch.setattr(sys, "argv", [command.__file__])
    assert command.as_called() == [sys.executable, "-m", "sidebyside"]


def test_another_folder_has_lessons_and_progress_of_its_own(
    sidebyside, course, tmp_path, monkeypatch
):
    monkeypatch.delenv("SIDEBYSIDE_PROGRESS")
    home, before = (tmp_path / "ada").resolve(), all_files(course.parent)
    _, launched = sidebyside("03", "--folder", str(home))
    assert all_files(course.parent) == before, "the course may be read-only"
    assert launched[1:] == [str(home), str(home / "my_lessons/03_gil.ipynb")]
    progress = str(home / ".sidebyside/progress.json")
    assert os.environ.pop("SIDEBYSIDE_PROGRESS") == progress
    if os.name == "posix":
        assert (home / "lessons/03_gil.ipynb").exists()


@pytest.fixture
def pages(course):
    """The course's pages, pictures and demos: what another folder gets as well."""
    root = course.parent
    names = "README.md", "resources/workshop/words.md", "resources/figures/ring.svg"
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"the course's {name}")
    for folder in "demos", "solutions":
        (root / folder).mkdir()
    return names


def all_files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lay_link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.symlink_to(target)
    except OSError:
        pytest.skip("Windows asks for a right that few people have")


@pytest.mark.parametrize(
    "theirs", ["README.md", "resources/workshop/words.md", "demos"]
)
def test_a_project_of_somebody_else_is_refused_and_stays(
    sidebyside, pages, tmp_path, capsys, theirs
):
    project = tmp_path / "thesis"
    file = project / theirs / "run.py" if theirs == "demos" else project / theirs
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    before = all_files(project)
    with pytest.raises(SystemExit, match="2"):
        sidebyside("--no-open", "--folder", str(project))
    said = capsys.readouterr().err
    assert said.startswith(f"sidebyside: {theirs} in {project.resolve()} did not")
    assert said.count("\n") == 1
    assert all_files(project) == before


@pytest.mark.parametrize("place", ["resources/figures/ring.svg", "resources/figures"])
def test_no_page_is_written_through_a_link(sidebyside, pages, tmp_path, capsys, place):
    home, elsewhere = tmp_path / "ada", tmp_path / "elsewhere"
    sidebyside("--no-open", "--folder", str(home))
    shutil.rmtree(home / "resources")
    file = elsewhere / "ring.svg" if place.endswith("figures") else elsewhere
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    lay_link(home / place, elsewhere)
    with pytest.raises(SystemExit, match="2"):
        sidebyside("--no-open", "--folder", str(home))
    assert "resources/figures/ring.svg in " in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(own):
    resource = pytest.importorskip("resource")
    before, limits = all_files(own), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError):
            write_whole(own / "03_gil.ipynb", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert all_files(own) == before


def test_what_is_copied_follows_no_link_that_lies_there(course, own, tmp_path):
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    run_cells(own / "03_gil.ipynb")
    write(course / "03_gil.ipynb", "print('better')")
    for name in ".03_gil.ipynb.new", "..copied.json.new":
        lay_link(own / name, target)
    lay_link(own / "replaced/03_gil.ipynb", tmp_path / "nothing")
    assert update_own_copies(course, own).replaced == ["03_gil"]
    assert target.read_text() == "mine" and not (tmp_path / "nothing").exists()


def test_pages_are_brought_up_to_date_unless_the_learner_has_changed_them(
    sidebyside, pages, course, tmp_path
):
    home, (_, words, _) = tmp_path / "ada", pages
    sidebyside("--no-open", "--folder", str(home))
    (home / words).write_text("my words")
    for name in pages:
        (course.parent / name).write_text("newer")
    sidebyside("--no-open", "--folder", str(home))
    now = [(home / name).read_text() for name in pages]
    assert now == ["newer", "my words", "newer"]
    assert (home / "demos").samefile(course.parent / "demos")


def test_the_first_page_is_written_anew_unless_the_learner_has_changed_it(
    sidebyside, course
):
    page = course.parent / command.FIRST_PAGE
    sidebyside("--no-open")
    assert "](03_the_gil.ipynb) |" in (before := page.read_text())
    with changed_record() as record:
        record["exercises"]["03-overlap"] = {"state": "PASSED", "tries": 1}
    sidebyside("03")
    assert page.read_text() != before
    page.write_text("mine")
    sidebyside("03")
    assert page.read_text() == "mine"


@pytest.mark.everything
def test_it_starts_this_python_though_another_has_the_same_name(sidebyside, course):
    """Without automagic: `reset("03")` is never the magic that deletes variables."""
    other = course.parent / "others/kernels/python3/kernel.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"argv": ["/bin/false"], "display_name": "", "language": ""}')
    (course.parent / "types.py").touch()  # beside the notebook, it does no harm
    sidebyside()
    manager, client = at_free_ports(start_new_kernel)
    try:
        ours = "set(__import__('sidebyside').__all__)"
        magics = f"{ours} & set(get_ipython().magics_manager.lsmagic()['line'])"
        expressions = {"python": "sys.executable", "magics": magics}
        reply = client.execute("import sys", user_expressions=expressions, reply=True)
        found = reply["content"]["user_expressions"]
        assert found["python"]["data"]["text/plain"] == repr(sys.executable)
        assert found["magics"]["data"]["text/plain"] == "{'reset'}", "its old name"
        reply = client.execute("reset('03')", reply=True)
        assert reply["content"]["ename"] == "NameError"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("arguments", [["99"], ["--restore", "x"]])
def test_a_lesson_that_is_not_there_is_one_sentence(sidebyside, capsys, arguments):
    with pytest.raises(SystemExit, match="2"):
        sidebyside(*arguments)
    name = arguments[-1]
    said = f"sidebyside: there is no lesson {name}; there are: 00, 03, 10a, 10b.\n"
    assert capsys.readouterr().err == said


def test_a_value_of_an_option_is_not_taken_for_a_lesson(sidebyside, capsys):
    with pytest.raises(SystemExit, match="2"):
        sidebyside("--port", "8890")
    assert "behind a =, as in --port=8890" in capsys.readouterr().err


@pytest.mark.parametrize("inside", ["", "my_lessons"])
def test_a_copy_of_the_course_never_opens_the_originals_lessons(
    course, tmp_path, monkeypatch, inside
):
    copy = tmp_path / "copy"
    (copy / "resources/sidebyside").mkdir(parents=True)
    (copy / inside).mkdir(exist_ok=True)
    monkeypatch.setattr(command, "ROOT", course.parent)
    monkeypatch.chdir(copy / inside)
    with pytest.raises(command.CannotOpen, match="Give it one of its own"):
        command.refuse_place_where_it_was_called(None)


@pytest.mark.skipif(not shutil.which("git"), reason="this machine has no git")
def test_git_does_not_see_what_a_learner_has(tmp_path):
    """So a pull goes through."""
    shutil.copy(ROOT / ".gitignore", tmp_path)
    for name in "my_lessons/03_gil.ipynb", ".sidebyside/progress.json":
        write(tmp_path / name, "my answer")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    status = subprocess.check_output(["git", "status", "--porcelain"], cwd=tmp_path)
    assert status == b"?? .gitignore\n"
