"""Open your own copies of the lessons in JupyterLab.

They lie in the folder my_lessons of the course. On the first day a page opens that
lists them all, and paths by goal; later the lesson in which you were. After an update
of the course (git pull) this brings new lessons, and replaces those whose cells you
have not changed; what you have changed stays as it is. What is replaced is kept in
my_lessons/replaced.
"""

import argparse
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from sidebyside.course import course_pages, finding, own_copies
from sidebyside.course.lesson_format import number_of
from sidebyside.course.record import ROOT
from sidebyside.exercises.class_page import (
    MARK,
    class_page,
    number_of_learners,
    read_class,
)
from sidebyside.exercises.first_page import first_page
from sidebyside.programs.run_program import print_whatever_it_is

KERNEL = ROOT / "resources/jupyter"  # this Python's, which no other of its name hides
USAGE = "sidebyside [NN] [--folder FOLDER] [--no-open] [options of jupyter lab]"
RESTORE = "sidebyside --restore NN [--folder FOLDER]"
FIND = 'sidebyside find "a word, a question, or a line of an error message"'
CLASS = "sidebyside class FOLDER_WITH_FILES_OF_PROGRESS"
FIRST_PAGE = "my_lessons/00_first_page.md"  # JupyterLab lists it above the lessons
NO_NOTEBOOK = (
    "Either the course's file is not a notebook, or what has its name in my_lessons is "
    "not a file. After a conflict in git, `git checkout HEAD -- lessons` brings the "
    "course's lessons back."
)


class CannotOpen(Exception):
    """The message is for the learner."""


def main() -> None:
    """The command `sidebyside`."""
    given = sys.argv[1:]
    others = {"find": print_places, "class": write_class_page}
    if given and given[0] in others:
        print_whatever_it_is()
        try:
            lessons_asked_for(None)
            others[given[0]](given[1:])
        except CannotOpen as error:
            end(str(error))
        return
    dashes = given.index("--") if "--" in given else len(given)
    args, options = parsed_arguments(given[:dashes])
    print_whatever_it_is()
    home = ROOT
    try:
        refuse_place_where_it_was_called(args.folder)
        home = Path(os.path.expanduser(args.folder or ROOT)).resolve()
        refuse_folder_of_others(home)
        if args.restore:
            restore(home, args.restore)
            return
        if home != ROOT:
            progress = home / ".sidebyside" / "progress.json"
            os.environ.setdefault("SIDEBYSIDE_PROGRESS", str(progress))
        to_open = own_notebook(home, args.lesson) or home / FIRST_PAGE
        course_pages.write_pages(home, {FIRST_PAGE: first_page().encode()})
        if args.no_open:
            print(f"Your lessons are in {to_open.parent}.")
            return
        if heading := own_copies.heading_in_hand(to_open):
            print(f"In {number_of(to_open.stem)} you ran a cell last under: {heading}.")
        if to_open != home / FIRST_PAGE:
            print(f"All lessons, paths by goal, and where you are: {FIRST_PAGE}.")
        launch = jupyterlab()
    except CannotOpen as error:
        end(str(error))
    except OSError as error:
        end(
            f"{error.filename or home}: {error.strerror or error}. If you cannot "
            "write there, name a folder of yours: "
            f"{typed(*as_called())} --folder ~/side_by_side"
        )
    paths = str(KERNEL), os.environ.get("JUPYTER_PATH", "")
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, paths))
    options += given[dashes + 1 :]
    launch(["--notebook-dir", str(home), str(to_open), *options])


def print_places(words: list[str]) -> None:
    """Where the course says something about the words: two lines for each place."""
    text = " ".join(words)
    if not text:
        end(f"say what you look for: {FIND}")
    found = finding.find(text)
    if not found:
        end(f"nothing is found for {text}; try another word for it")
    for name, meaning, place, _ in found:
        print(f"{name}: {meaning}" if meaning else name, f"    {place}", sep="\n")


def end(sentence: str) -> NoReturn:
    print(f"sidebyside: {sentence}", file=sys.stderr)
    sys.exit(2)


def as_called() -> list[str]:
    """This command, by the path that was typed: other shells may not find it."""
    if Path(sys.argv[0]).name == "__main__.py":
        return [sys.executable, "-m", "sidebyside"]
    return sys.argv[:1]


def typed(*words: str) -> str:
    """The words as a line for this system's shell."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def parsed_arguments(given: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Ours, and those that are for Jupyter, such as --no-browser."""
    parser = argparse.ArgumentParser(
        "sidebyside",
        usage="\n       ".join((USAGE, RESTORE, FIND, CLASS)),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("lesson", metavar="NN", nargs="?", help="the lesson; else where you were")
    add("--restore", metavar="NN", help="take a lesson anew, and keep a copy of yours")
    add("--folder", help="where my_lessons and your progress lie")
    add("--no-open", action="store_true", help="only bring the copies up to date")
    args, options = parser.parse_known_args(given)
    lesson, course = args.lesson, ROOT / "lessons"
    if options and lesson and not own_copies.notebooks_numbered(course, lesson):
        end(
            f"there is no lesson {lesson}. If it is the value of an option of Jupyter, "
            "write it behind a =, as in --port=8890."
        )
    return args, options


def refuse_place_where_it_was_called(folder: str | None) -> None:
    """A copied .venv has the paths of the original still, and opens its lessons."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise CannotOpen(
            "the folder in which you are is gone. Type `cd`, then call this again."
        ) from None
    for place in here, *here.parents:
        is_course = (place / "resources/sidebyside").is_dir()
        if is_course and not folder and not place.samefile(ROOT):
            raise CannotOpen(
                f"{place} is another copy of the course than {ROOT}, whose .venv this "
                "is. Give it one of its own, as the README says of a course that was "
                "copied."
            )


def refuse_folder_of_others(home: Path) -> None:
    others = course_pages.things_of_others(ROOT, home) if home != ROOT else []
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise CannotOpen(
            f"{', '.join(others[:3])}{more} in {home} did not come from this course, "
            "and nothing of yours is overwritten. Name an empty folder: "
            f"{typed(*as_called())} --folder ~/side_by_side"
        )


def own_notebook(home: Path, number: str | None) -> Path | None:
    """Bring the copies up to date, say so, and return the one to open, if any."""
    course, own = ROOT / "lessons", home / "my_lessons"
    asked_for = lessons_asked_for(number)[0].name
    chosen = asked_for if number else own_copies.lesson_in_hand(course, own)
    update = own_copies.update_own_copies(course, own)
    for sentence in update_in_words(update, home):
        print(sentence)
    for name in update.kept:
        lesson = course / f"{name}.ipynb"
        if news := own_copies.new_sections(lesson, own / lesson.name):
            print(f"New in {number_of(name)}: {'; '.join(news)}.")
    if home != ROOT:
        course_pages.bring_pages(ROOT, home)
        if not course_pages.link_course(ROOT, home):
            names = ", ".join(course_pages.LINKED)
            print(f"Links from lessons to {names} do not work here.")
    if chosen is None:
        return None
    if not (own / chosen).is_file():
        raise CannotOpen(f"there is no {own / chosen} to open.")
    return own / chosen


def lessons_asked_for(number: str | None) -> list[Path]:
    """All lessons of the course, or those with this number."""
    course = ROOT / "lessons"
    there = own_copies.lesson_notebooks(course)
    if not there:
        raise CannotOpen(
            f"there are no lessons in {course}. Work in a clone of the course, and run "
            "`pip install -r requirements.txt` there."
        )
    chosen = own_copies.notebooks_numbered(course, number) if number else there
    if not chosen:
        numbers = ", ".join(number_of(lesson.stem) for lesson in there)
        raise CannotOpen(f"there is no lesson {number}; there are: {numbers}.")
    return chosen


def update_in_words(update: own_copies.Update, home: Path) -> list[str]:
    """One line for each kind of thing that has happened."""
    numbers_of = [", ".join(map(number_of, part)) for part in update]
    new, replaced, kept, removed, left, renamed, skipped = numbers_of
    folder = [] if home == ROOT else ["--folder", str(home)]
    restore_one = typed(*as_called(), "--restore", "NN", *folder)
    old_copies = f"The copies that you had are in my_lessons/{own_copies.REPLACED}."
    said = [
        (new, f"New in my_lessons: {new}."),
        (replaced, f"Updated, since you had not changed them: {replaced}."),
        (removed, f"Removed, since the course no longer has them: {removed}."),
        (renamed, f"Modules have new names; your cells now import those: {renamed}."),
        (replaced or removed or renamed, old_copies),
        (left, f"Yours, no longer in the course: {left}."),
        (skipped, f"Not copied: {skipped}. {NO_NOTEBOOK}"),
        (
            kept,
            f"Kept as you changed them, though the course has newer ones: {kept}. "
            f"`{restore_one}` takes the newer one, with yours kept beside it.",
        ),
    ]
    return [sentence for numbers, sentence in said if numbers]


def restore(home: Path, number: str) -> None:
    """The course's lesson takes the place of the learner's copy, which is kept."""
    for lesson in lessons_asked_for(number):
        if not own_copies.can_be_copied(lesson, home / "my_lessons" / lesson.name):
            raise CannotOpen(f"{number_of(lesson.stem)} is not restored. {NO_NOTEBOOK}")
        backup = own_copies.restore_own_copy(lesson, home / "my_lessons")
        kept = f" Yours is kept beside it as {backup.name}." if backup else ""
        print(f"my_lessons/{lesson.name} is as in the course.{kept}")
    print("If it is open: File → Reload Notebook from Disk.")


def write_class_page(arguments: list[str]) -> None:
    """Merge the progress of a class into one page."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        end(f"name the folder with the files of your learners' progress: {CLASS}")
    page = Path(arguments[0]) / "class.html"
    records, faults = read_class(page.parent)
    for fault in faults:
        print(fault)
    content = class_page(records).encode(errors="backslashreplace")
    try:
        if page.exists() and not page.read_bytes().startswith(MARK.encode()):
            end(f"{page} did not come from this command, and is not overwritten.")
        own_copies.write_whole(page, content)
    except OSError as error:
        end(f"{page} cannot be written: {error.strerror}.")
    print(f"{number_of_learners(records)}, written to {page}")


def jupyterlab():
    """What `jupyter lab` calls: it runs in this process, until the learner ends it."""
    if importlib.util.find_spec("jupyterlab") is None:
        words = "-m", "pip", "install", "-r", "requirements.txt"
        install = typed(sys.executable, *words)
        raise CannotOpen(
            f"JupyterLab is not installed for this Python: run `{install}` in {ROOT}."
        )
    from jupyter_core.paths import jupyter_runtime_dir
    from jupyterlab.labapp import LabApp

    try:
        os.makedirs(jupyter_runtime_dir(), exist_ok=True)
        tempfile.TemporaryFile(dir=jupyter_runtime_dir()).close()
    except OSError as error:
        raise CannotOpen(
            f"Jupyter cannot write to {jupyter_runtime_dir()} ({error.strerror}). Let "
            "the environment variable HOME name a folder in which you can write."
        ) from None
    return LabApp.launch_instance


if __name__ == "__main__":
    main()
