"""A checkpoint that cannot be written costs nothing but itself."""

import pytest

from parallel_by_hand.checkpoints.atomic_file import load_checkpoint, save_atomically


def test_a_state_that_cannot_be_saved_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "a.pt"
    save_atomically({"step": 1}, path)
    with pytest.raises(Exception, match="pickle"):
        save_atomically({"step": (n for n in "ab")}, path)
    assert load_checkpoint(path) == {"step": 1}
