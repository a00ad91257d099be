"""What the demos save is whole, is theirs, and is written by one run at a time.

`generate_ode_data` makes again whatever is not as it was written; `train_digits` says
on one line why it cannot go on. Nothing is mixed and nothing of others is removed.
"""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from demos.practice.generate_ode_data import DataParts
from sidebyside.course.single_use import hold_for_single_use
from sidebyside.programs.run_demo import DEMOS

pytestmark = pytest.mark.everything

SETTINGS = {"tasks": 4, "seed": 7}
ROWS = np.arange(20.0).reshape(4, 5)


def run(name: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(DEMOS / name), *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )


def generate(folder: Path, *arguments: object) -> subprocess.CompletedProcess:
    few = "--tasks", 4, "--workers", 1, "--out", "data.npz"
    return run("practice/generate_ode_data.py", *few, *arguments, folder=folder)


def train(folder: Path, *arguments: object) -> subprocess.CompletedProcess:
    alone = "--mode", "single", "--checkpoint"
    return run("ddp/train_digits.py", *alone, *arguments, folder=folder)


def is_refused(done: subprocess.CompletedProcess, why: str) -> bool:
    """Status 2, nothing on standard output, and one line that says why."""
    *usage, message = done.stderr.strip().splitlines()
    assert why in message, done.stderr
    assert not any("Traceback" in line for line in usage)
    return (done.returncode, done.stdout) == (2, "")


@pytest.fixture
def parts(tmp_path) -> DataParts:
    """Three finished parts."""
    parts = DataParts(tmp_path / "data.npz", SETTINGS)
    parts.open()
    for number in range(3):
        parts.add(number, ROWS + number)
    return parts


def test_a_spoiled_part_is_made_again(tmp_path):
    assert generate(tmp_path, "--kill-at", 3).returncode == 1
    saved = sorted(tmp_path.glob("data.npz.parts/*.part"))
    assert saved, "some part was saved"
    saved[0].write_bytes(saved[0].read_bytes()[:-1] + b"x")
    done = generate(tmp_path)
    assert done.returncode == 0, done.stderr
    again = run(
        "practice/generate_ode_data.py", "--tasks", 4, "--workers", 1, folder=tmp_path
    )
    assert done.stdout.split("checksum ")[1][:16] in again.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("settings.json", "[1]", "not the folder of an earlier run"),
        ("settings.json", '{"tasks": 4, "seed": 8}', "is of a run with --tasks 4"),
        ("thesis.txt", "mine", "thesis.txt is not of this program"),
    ],
)
def test_a_folder_of_somebody_else_is_refused_and_stays(
    name, content, why, parts, tmp_path
):
    strange = parts.folder / name
    strange.write_text(content)
    assert is_refused(generate(tmp_path), why)
    assert strange.exists()
    assert all((parts.folder / f"00000{number}.part").exists() for number in range(3))


HOLDER = """
import sys, pathlib
from sidebyside.course.single_use import hold_for_single_use
print(hold_for_single_use(pathlib.Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_one_program_at_a_time_holds_a_file(tmp_path):
    path = tmp_path / "digits.pt"
    command = [sys.executable, "-c", HOLDER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as first:
        assert first.stdout.readline() == "\n"
        assert "in use by another run" in hold_for_single_use(path)
        assert is_refused(train(tmp_path, path), "in use by another run")
        first.communicate("")
    assert list(tmp_path.iterdir()) == []
    with subprocess.Popen(command, **pipes) as second:
        assert second.stdout.readline() == "\n"
        second.send_signal(signal.SIGKILL)
    assert hold_for_single_use(path) == "", "a killed program holds nothing"


@pytest.mark.parametrize("script", ["failures/own_resumable", "capstone/own_writer"])
def test_an_own_script_refuses_what_is_no_checkpoint_of_it(script, tmp_path):
    path, asked = tmp_path / "saved.pt", (f"{script}.py", "--checkpoint", "saved.pt")
    assert run(*asked, folder=tmp_path).returncode == 0
    good, spoiled = torch.load(path), bytearray(path.read_bytes())
    spoiled[len(spoiled) // 2] ^= 1
    torch.save(good | {"step": -5}, path)
    for content in spoiled, b"mine", path.read_bytes():
        path.write_bytes(content)
        assert is_refused(run(*asked, folder=tmp_path), "is not of this program")
        assert path.read_bytes() == content


def test_what_is_no_checkpoint_of_this_program_is_refused_and_stays(tmp_path):
    path = tmp_path / "digits.pt"
    assert train(tmp_path, path, "--epochs", 1).returncode == 0
    good = torch.load(path)
    doubled = {name: tensor.double() for name, tensor in good["model"].items()}
    for content in {"a": 1}, good | {"epoch": -5}, good | {"model": doubled}:
        torch.save(content, path)
        before = path.read_bytes()
        assert is_refused(train(tmp_path, path), "is not a checkpoint of this program")
        assert path.read_bytes() == before
    nan = {name: tensor * torch.nan for name, tensor in good["model"].items()}
    torch.save(good | {"model": nan}, path)
    assert is_refused(train(tmp_path, path), "its training has diverged")
    torch.save(good, path)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    assert is_refused(train(tmp_path, path), "or is spoiled")
