"""A checkpoint that cannot be written costs nothing but itself."""

import pytest

from parallel_by_hand.checkpoints.atomic_file import load_checkpoint, save_atomically


def test_a_state_that_cannot_be_saved_leaves_the_old_checkpoint(tmp_path):
    path, other = tmp_path / "a.pt", tmp_path / "other"
    (tmp_path / "a.pt.unfinished").symlink_to(other)
    save_atomically({"step": 1}, path)
    assert not other.exists(), "a link is not written through"
    with pytest.raises(Exception, match="pickle"):
        save_atomically({"step": (n for n in "ab")}, path)
    assert load_checkpoint(path) == {"step": 1}
