"""A checkpoint in the background: one write at a time, all whole, no error lost."""

from itertools import pairwise
from pathlib import Path

import pytest

from parallel_by_hand.checkpoints.atomic_file import load_checkpoint
from parallel_by_hand.failures.background_save import (
    BackgroundSaver,
    train_beside_writer,
    write_to_slow_disk,
)
from sidebyside import Timeline


def spans_beside_writer(folder: Path, background: bool) -> dict[str, list]:
    with Timeline() as timeline:
        train_beside_writer(folder, background, steps=6)
    return {s.name: s for s in timeline.spans if s.name.startswith("step")}, [
        s for s in timeline.spans if s.name == "write"
    ]


@pytest.mark.everything
def test_in_the_background_the_next_step_begins_before_the_file_is_written(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(write_to_slow_disk, "__defaults__", (1.0,))
    steps, writes = spans_beside_writer(tmp_path, background=True)
    assert steps["step 4"].start < writes[0].end
    steps, writes = spans_beside_writer(tmp_path, background=False)
    assert steps["step 4"].start > writes[0].end


def test_one_write_at_a_time_and_all_are_there_at_the_end(tmp_path):
    _, writes = spans_beside_writer(tmp_path, background=True)
    assert all(one.end <= other.start for one, other in pairwise(writes))
    saved = {path.name: load_checkpoint(path) for path in tmp_path.glob("*.pt")}
    assert {name: int(s["weights"][0]) for name, s in saved.items()} == {
        "00000003.pt": 3,
        "00000006.pt": 6,
    }


def test_a_write_that_fails_is_not_forgotten(tmp_path):
    saver = BackgroundSaver()
    saver.save({"step": 1}, tmp_path / "no_such_folder" / "a.pt")
    with pytest.raises(FileNotFoundError):
        saver.wait()
    saver.pool.shutdown()
