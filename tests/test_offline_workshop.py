"""The workshop page's commands install the course where there is no network.

They are read from the page and run as they stand, in two copies of the course: one
for the computer with a network, one for the laptop. The copies need little, one library
and the course itself, so that little has to be downloaded.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "resources" / "workshop" / "README.md"
LIBRARY = "cloudpickle"  # needs nothing itself
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "resources")
NO_NETWORK = {  # not even what pip keeps, or where else it is told to look
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_NO_CACHE_DIR": "1",
    "PIP_INDEX_URL": "http://127.0.0.1:9/",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
}

pytestmark = [
    pytest.mark.everything,
    pytest.mark.skipif(os.name == "nt", reason="the commands are for sh"),
]


def blocks_of_commands() -> list[str]:
    section = PAGE.read_text("utf-8").partition("## Without a network\n")[2]
    return re.findall(r"^```sh\n(.*?)^```", section.partition("\n## ")[0], re.M | re.S)


def run(command, folder: Path, **environment) -> subprocess.CompletedProcess:
    """With this Python as `python3`; installed packages of ours are out of sight."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "PYTHONNOUSERSITE": "1"} | environment
    return subprocess.run(
        command, cwd=folder, env=env, shell=isinstance(command, str),
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def copy_of_course(folder: Path) -> Path:
    """What an installation reads, with the library's pin and the last line `-e .`."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    pin = next(line for line in lines if line.startswith(LIBRARY)).split()[0]
    for name in NEEDED:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, target)
    project = folder / "pyproject.toml"
    needs = re.compile(r"^dependencies = \[.*?^\]", re.MULTILINE | re.DOTALL)
    text = needs.sub(f'dependencies = ["{LIBRARY}"]', project.read_text("utf-8"))
    project.write_text(text, "utf-8")
    (folder / "requirements.txt").write_text(f"{pin}\n{lines[-1]}\n", "utf-8")
    return folder


def install_library(course: Path) -> None:
    """As on the computer with a network, without the course itself."""
    pin = (course / "requirements.txt").read_text("utf-8").splitlines()[0]
    retries = "5" if os.environ.get("CI") else "0"
    install = f"python3 -m venv .venv && .venv/bin/pip install {pin}"
    done = run(install, course, PIP_RETRIES=retries, PIP_DEFAULT_TIMEOUT="20")
    if done.returncode:
        why = f"no index of packages can be reached from here: {pin} was asked for"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    """What the first block of commands makes, on the computer with a network."""
    course = copy_of_course(tmp_path_factory.mktemp("first") / "course")
    install_library(course)
    done = run(f"set -e\n{blocks_of_commands()[0]}", course)
    assert done.returncode == 0, done.stderr
    yield course.parent / "wheels"
    shutil.rmtree(course.parent)


def test_the_folder_holds_what_is_installed_and_what_builds_the_course(wheels):
    names = {file.name.partition("-")[0] for file in wheels.glob("*.whl")}
    assert {LIBRARY, "hatchling", "editables"} <= names
    assert "sidebyside" not in names, "it is installed from its folder"


@pytest.fixture(scope="module")
def laptop(wheels, tmp_path_factory) -> Path:
    """The course on a laptop, after the second block's first command."""
    folder = tmp_path_factory.mktemp("laptop")
    shutil.copytree(wheels, folder / "wheels")
    make_environment = blocks_of_commands()[1].splitlines()[0]
    made = run(make_environment, copy_of_course(folder / "course"))
    assert made.returncode == 0, made.stderr
    yield folder / "course"
    shutil.rmtree(folder)


def test_the_commands_install_the_course_without_a_network(laptop, tmp_path):
    install = blocks_of_commands()[1].partition("\n")[2]
    done = run(f"set -e\n{install}", laptop, **NO_NETWORK)
    assert done.returncode == 0, done.stdout + done.stderr

    python = str(laptop / ".venv" / "bin" / "python")
    where = "import sidebyside, cloudpickle; print(sidebyside.__file__)"
    done = run([python, "-c", where], tmp_path)  # from another folder, too
    assert done.stdout.startswith(str(laptop)), done.stderr


def test_a_wheel_says_that_exercises_need_the_folder_of_the_course(laptop, tmp_path):
    install = f".venv/bin/pip install --no-deps --target {tmp_path} ."
    done = run(f"{install} --no-index --find-links ../wheels", laptop, **NO_NETWORK)
    assert done.returncode == 0, done.stderr

    check = "import sidebyside; sidebyside.check('03-overlap', len)"
    command = [sys.executable, "-c", f"{check}; print(sidebyside.__file__)"]
    done = run(command, tmp_path, PYTHONPATH=str(tmp_path))
    assert "Exercises need the course's folder" in done.stdout, done.stderr
    assert str(tmp_path) in done.stdout

    progress = "import sidebyside; sidebyside.progress()"
    done = run([sys.executable, "-c", progress], tmp_path, PYTHONPATH=str(tmp_path))
    assert "Exercises need the course's folder" in done.stdout, done.stderr
    find = [sys.executable, "-m", "sidebyside", "find", "all-reduce"]
    done = run(find, tmp_path, PYTHONPATH=str(tmp_path))
    assert done.stderr.startswith("sidebyside: there are no lessons in "), done.stderr


def test_the_page_names_the_build_backend_that_the_course_asks_for():
    asked = re.search(r'requires = \["(.+?)"\]', (ROOT / "pyproject.toml").read_text())
    assert asked[1] in blocks_of_commands()[0]
