"""What counting knows, what the model learns, and that a stopped training goes on."""

import errno
import os
import subprocess
import sys
from argparse import Namespace
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch

from demos.capstone import my_report
from demos.capstone.own_writer import train_writer
from demos.capstone.train_text import (
    BY_OPTION,
    load_text_state,
    parse_text_arguments,
    why_not_train_text_on,
)
from lessons.props.your_training import draw_text_curve
from parallel_by_hand.capstone.report_measurements import LAST, spans_of_last_step
from parallel_by_hand.capstone.report_page import KIND, read_report, write_report_page
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.capstone.text_batches import text_alphabet, text_tokens
from parallel_by_hand.capstone.text_state import (
    train_text_states,
)
from parallel_by_hand.capstone.whole_state import WholeState
from sidebyside import device, load_moby_dick, run_ranks
from sidebyside.course.record import ROOT, record_file
from sidebyside.timeline.spans import Span

from .checks import _pair_bits

WORDS = len(text_alphabet())


def test_pairs_of_the_exercise_need_as_many_bits_as_its_why_says():
    texts = load_moby_dick("train"), load_moby_dick("test")
    assert round(fmean(_pair_bits(*texts, text_alphabet())), 2) == 3.47


def test_most_triples_never_come():
    seen = set(zip(*(load_moby_dick("train")[i:] for i in range(3)), strict=False))
    assert WORDS**3 == 512_000
    assert len(seen) == 9_669


def test_the_curve_names_what_it_shows():
    fig = draw_text_curve({100: 3.4, 500: 2.8}, {"uniform": 6.3, "pairs": 3.5})
    assert fig.alt == "the transformer needs 3.4 after 100 steps, 2.8 after 500 steps"
    assert {text.get_text() for text in fig.axes[0].texts} == {"transformer", "pairs"}


def states_of(name: str, *args) -> list[WholeState]:
    ranks = STRATEGIES[name].ranks
    return run_ranks(train_text_states, name, *args, world_size=ranks)[0]


def largest_gap(one: WholeState, other: WholeState) -> float:
    assert one.numbers.keys() == other.numbers.keys()
    gaps = [(one.numbers[n] - other.numbers[n]).abs().max() for n in one.numbers]
    return torch.stack(gaps).max().item()  # nan, if one is


def test_a_training_goes_on_under_another_strategy_up_to_rounding():
    saved, expected = states_of("ZeRO-2", 4, 2)
    for name in "one process", "1F1B", "data x tensor", "context", "hybrid":
        [went_on] = states_of(name, 4, 4, saved)
        assert largest_gap(went_on, expected) < 1e-3


def run_script(path: str, *args: object, folder=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(ROOT / "demos" / "capstone" / path), *map(str, args)],
        capture_output=True, text=True, cwd=folder,
    )  # fmt: skip


@pytest.mark.everything
def test_train_text_goes_on_from_its_checkpoint_under_another_strategy(tmp_path):
    path = tmp_path / "whale.pt"
    options = "--write", 0, "--batch", 8, "--checkpoint", path
    first = run_script("train_text.py", "--steps", 2, "--every", 1, *options)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("held-out text") == 2
    second = run_script("train_text.py", "--steps", 4, "--strategy", "zero-2", *options)
    assert "step     4 of 4" in second.stdout, second.stderr
    [expected] = states_of("DDP (ours)", 4, 4, None, 8)
    assert largest_gap(load_text_state(path), expected) < 1e-4
    assert os.listdir(tmp_path) == ["whale.pt"]

    asked = Namespace(checkpoint=path, steps=9, batch=8)
    assert why_not_train_text_on(asked) == ""
    asked.batch = 16
    assert why_not_train_text_on(asked).endswith("was trained with --batch 8")
    asked.batch, asked.steps = 8, 4
    assert "has 4 steps: ask for more" in why_not_train_text_on(asked)
    path.write_bytes(path.read_bytes()[:-100])
    assert why_not_train_text_on(asked).endswith("or is spoiled")


def test_every_strategy_has_an_option_of_its_own():
    assert list(BY_OPTION.values()) == list(STRATEGIES.values())
    assert {"ddp-ours", "zero-3", "1f1b", "2-x-2-x-2"} <= set(BY_OPTION)


@pytest.mark.parametrize("batch", ["7", "12"])
def test_rows_that_some_strategy_cannot_deal_are_refused(batch, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train_text.py", "--batch", batch])
    with pytest.raises(SystemExit, match="2"):
        parse_text_arguments()
    assert "argument --batch: must be" in capsys.readouterr().err


@pytest.mark.everything
def test_the_own_script_goes_on_where_it_stopped_with_other_ranks_too(tmp_path):
    for name, steps, ranks in ("a", 9, 1), ("b", 5, 2), ("b", 9, 2), ("c", 9, 2):
        args = text_tokens(), WORDS, steps, str(tmp_path / name)
        run_ranks(
            lambda *args: train_writer(*args, str(device())), *args, world_size=ranks
        )
    alone, stopped, whole = (torch.load(tmp_path / name, "cpu") for name in "abc")
    assert alone["step"] == stopped["step"] == whole["step"] == 9
    for name, numbers in whole["model"].items():
        torch.testing.assert_close(numbers, stopped["model"][name], rtol=0, atol=0)
        torch.testing.assert_close(numbers, alone["model"][name], rtol=0, atol=0.05)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


@pytest.mark.everything
def test_my_report_lays_another_report_beside_its_own(tmp_path):
    table = {
        "title": "The ladder", "note": "", "keys": 2,
        "columns": ["rung", "ranks", "apart", "bytes sent", "memory", "bubble",
                    "predicted", "a step"],
        "rows": [["tensor", "2", "<b>", "1", "2", "", "", "7 ms"]],
    }  # fmt: skip
    other = {"kind": KIND, "name": "other", "written": "today", "sections": [table]}
    write_report_page(tmp_path / "other.html", other)
    done = run_script(
        "my_report.py", "--rungs", "tensor", "--steps", 3, "--to", "mine.html",
        "--beside", "other.html", folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    mine = read_report(tmp_path / "mine.html")
    titles = [section["title"] for section in mine["sections"]]
    assert titles == [
        "Machine", "Guesses and measurements", "Exercises", "Constants", "Timelines",
        "The ladder",
    ]  # fmt: skip
    rows = mine["sections"][-1]["rows"]
    assert [row[:2] for row in rows] == [["one process", "1"], ["tensor", "2"]]
    assert all(row[6] == "exactly" for row in rows)
    page = (tmp_path / "mine.html").read_text()
    assert "&lt;b&gt;" in page and "<b>" not in page and "7 ms" in page


def test_what_is_no_report_is_refused_before_anything_is_measured(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "text").write_text("no report")
    others = [("--beside", tmp_path / name) for name in ("none.html", "text")]
    for option, file in (*others, ("--to", record_file())):
        monkeypatch.setattr(sys, "argv", ["my_report.py", option, str(file)])
        with pytest.raises(SystemExit, match="2"):
            my_report.parse_report_arguments()
        assert f"argument {option}" in capsys.readouterr().err


def test_a_report_for_which_the_disk_is_full_is_printed(monkeypatch, capsys):
    def write_report_page(*_) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    section = {"title": "Constants", "rows": [["alpha", "49 µs"]]}
    for name in "machine", "guesses", "exercises", "constants", "timelines", "ladder":
        monkeypatch.setattr(my_report, f"{name}_section", lambda *_: section)
    monkeypatch.setattr(my_report, "write_report_page", write_report_page)
    monkeypatch.setattr(sys, "argv", ["my_report.py"])
    with pytest.raises(SystemExit, match=r"my_report.html .* the disk is full"):
        my_report.main()
    assert "Constants\n  alpha  49 µs\n" in capsys.readouterr().out


def test_a_timeline_of_the_report_shows_the_last_step_only():
    made = [("forward", 0, 1), (LAST, 2, 5), ("forward", 3, 4)]
    spans = [Span(name, "rank 0", start, end, None) for name, start, end in made]
    shown = spans_of_last_step(SimpleNamespace(spans=spans))
    assert shown.spans == spans[2:] and shown.lanes == ["rank 0"]
