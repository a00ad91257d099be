"""The program for GPUs says what it has run, and runs the most telling paths first.

No GPU is needed here: what a path asks of ranks is tried on the CPU.
"""

import argparse
import os
import subprocess
import sys

import pytest

from tests.gpu import every_gpu_path as program
from tests.gpu import one_path
from tests.gpu.every_gpu_path import NOTHING, ROOT, Row, environment, run_one


@pytest.mark.everything
def test_without_a_gpu_it_says_so_and_nothing_has_failed():
    command = [sys.executable, str(ROOT / "tests/gpu/every_gpu_path.py")]
    without = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=without, capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == (NOTHING, 0), done.stderr


@pytest.mark.parametrize(("minutes", "status"), [(8, 0), (0, 1)])
def test_it_prints_a_table_with_the_cards_name_and_writes_it(
    minutes, status, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(program, "found_gpus", lambda env: ("torch 2.13", ["A card"]))
    monkeypatch.setattr(program, "names_of_paths", lambda env: ["13a: x", "demo y"])
    if minutes:
        row = Row("", "cuda:0", "equal", "1 ms")
        monkeypatch.setattr(program, "run_one", lambda n, *more: row._replace(path=n))
    args = argparse.Namespace(
        only=[""], minutes=minutes, seconds=9, to=tmp_path / "table.txt"
    )
    assert program.run_on_gpus(args, {}) == status
    head, first, second, tail, _ = args.to.read_text("utf-8").split("\n")
    assert head.startswith("torch 2.13, Python 3.") and head.endswith("GPUs: A card")
    assert first.startswith("13a: x ") and second.startswith("demo y ")
    assert ("equal" if minutes else "NO TIME") in first
    assert tail == f"2 paths, {0 if minutes else 2} of them failed or not run"
    assert head in capsys.readouterr().out


def test_the_most_telling_paths_come_first_and_lessons_last():
    names, own = one_path.names(), list(one_path.functions())
    assert len(own) == len(one_path.MOST_TELLING_FIRST), "each has a name of its own"
    assert names[: len(own)] == own and own[0].startswith("00: the device")
    kinds = [name.split()[0] for name in names[len(own) :]]
    assert kinds == sorted(kinds) and set(kinds) == {"demo", "lesson"}
    assert names[names.index("lesson 13a") - 1].startswith("demo ")


@pytest.mark.everything
def test_a_path_that_fails_or_hangs_has_a_row_like_the_others(tmp_path):
    env = environment(str(tmp_path))
    assert run_one("no such path", env, 200).result == "FAILED"
    assert run_one("13b", env, 0.01) == Row("13b", "", "HUNG", "no result after 0 s")


ON_CPU_TOO = (
    "10b: four ways to all-reduce beside the library's",
    "11: data parallel by our wrapper",
    "11: data parallel by torch's wrapper",
    "14a: a network cut in two",
    "15: pipeline, 1F1B",
    "16a: a layer split over ranks, beside the whole layer",
    "17: the stages of ZeRO beside DDP",
)


@pytest.mark.everything
@pytest.mark.parametrize("path", ON_CPU_TOO)
def test_what_a_path_compares_is_equal_on_the_cpu(path, tmp_path):
    row = run_one(path, environment(str(tmp_path)), 400)
    assert row.result == "equal", row
