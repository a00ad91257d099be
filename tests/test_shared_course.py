"""Several learners can share one account, or one copy of the course that is read-only.

Each has a folder of copies, and SIDEBYSIDE_PROGRESS names the file of each.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sidebyside.course.record import ROOT, read_record, record_file

pytestmark = pytest.mark.everything

LESSON = "00_start_here.ipynb"
# Root may write anywhere, unless it gives up this right.
AS_OTHERS = ["setpriv", "--bounding-set=-dac_override"] if os.name == "posix" else []


@pytest.fixture
def read_only_course(tmp_path):
    """A copy of the instruments and the first lesson that nobody can write to."""
    course = tmp_path / "course"
    for part in "resources/sidebyside", "lessons":
        others = shutil.ignore_patterns("__pycache__", "[1-9]*", "0[1-9]*")
        shutil.copytree(ROOT / part, course / part, ignore=others)
    for path in [course, *course.rglob("*")]:
        path.chmod(path.stat().st_mode & 0o555)
    yield course
    for path in [course, *course.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def python_of_learner(
    course: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess:
    is_root = os.name == "posix" and os.geteuid() == 0
    if is_root and not shutil.which("setpriv"):
        pytest.skip("root may write anywhere")
    own = {key: value for key, value in os.environ.items() if key[:10] != "SIDEBYSIDE"}
    own["PYTHONPATH"] = os.pathsep.join([str(course / "resources"), str(course)])
    return subprocess.run(
        [*(AS_OTHERS if is_root else []), sys.executable, *arguments],
        env=own | variables,
        cwd=course,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_learners_of_a_read_only_course_have_copies_each(read_only_course, tmp_path):
    start = "-m", "sidebyside", "--no-open"
    refused = python_of_learner(read_only_course, *start)
    assert refused.returncode == 2
    assert "name a folder of yours: " in refused.stderr
    assert "-m sidebyside --folder ~/side_by_side" in refused.stderr
    assert refused.stderr.count("\n") == 1
    for name in "ada", "ben":
        folder = tmp_path / name
        run = python_of_learner(read_only_course, *start, "--folder", str(folder))
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith("New in my_lessons: 00.\n")
        assert [p.name for p in folder.glob("my_lessons/[!.]*")] == [LESSON]
        with (folder / "my_lessons" / LESSON).open("a") as copy:
            copy.write("\n")


def test_a_tilde_stands_for_the_learners_home(monkeypatch, tmp_path):
    monkeypatch.setenv("SIDEBYSIDE_PROGRESS", "~/ada.json")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert record_file() == tmp_path / "ada.json"
    assert read_record() == {"exercises": {}, "guesses": {}}


def test_the_instructors_guide_says_how():
    guide = (ROOT / "resources/workshop/README.md").read_text(encoding="utf-8")
    assert "SIDEBYSIDE_PROGRESS=~/ada.json .venv/bin/jupyter lab" in guide
    assert ".venv/bin/sidebyside --folder ~/side_by_side" in guide
