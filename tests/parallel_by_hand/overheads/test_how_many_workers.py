"""The program that looks for the best number takes any function, or says why not."""

import subprocess
import sys

import pytest

from demos.overheads import how_many_workers


def test_workers_of_the_demo_import_neither_numpy_nor_matplotlib():
    """Each worker imports the demo again: its imports would be part of c."""
    code = (
        "import sys, parallel_by_hand.overheads.how_many_workers; print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "sidebyside" in run.stdout.split(), run.stderr
    assert not {"numpy", "matplotlib", "torch"} & set(run.stdout.split())


@pytest.mark.everything
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_kind", "must be busy, nap, draw or module:name"),
        ("no_such_module:f", "ModuleNotFoundError"),
        ("math:log", "ValueError"),
        ("math:pi", "not callable"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused_in_one_line(name, why):
    command = [sys.executable, how_many_workers.__file__, "--function", name]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2
    assert why in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr


@pytest.mark.everything
def test_the_demo_takes_any_function_and_writes_its_plot(tmp_path):
    (tmp_path / "mine.py").write_text("def cube(piece):\n    return piece**3\n")
    command = [sys.executable, how_many_workers.__file__, "--function", "mine:cube"]
    command += ["--pieces", "4", "--rounds", "1", "--plot", "knee.png"]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert "best here" in run.stdout
    assert (tmp_path / "knee.png").read_bytes().startswith(b"\x89PNG")
