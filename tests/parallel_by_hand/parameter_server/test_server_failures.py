"""A checkpoint brings a killed run back to the same parameters."""

from functools import partial

import pytest
import torch

from parallel_by_hand.parameter_server.server_failures import (
    load_server,
    train_with_checkpoints,
)
from sidebyside import RankFailed, run_ranks


@pytest.mark.parametrize("victim", [0, 1])
def test_a_checkpoint_brings_the_run_back_to_the_same_parameters(tmp_path, victim):
    path = tmp_path / "server.pt"
    with pytest.raises(RankFailed, match=f"rank {victim} was killed by SIGKILL"):
        run_ranks(train_with_checkpoints, path, 20, victim, 15, world_size=3)
    assert load_server(path)[0] == 10
    first, again = run_ranks(train_with_checkpoints, path, 20, world_size=3)[0]
    other = tmp_path / "other.pt"
    whole = run_ranks(train_with_checkpoints, other, 20, world_size=3)[0][1]
    assert first == 10 and torch.equal(again, whole)


def test_at_once_a_checkpoint_brings_the_server_back_too(tmp_path):
    path = tmp_path / "server.pt"
    trains = partial(train_with_checkpoints, path, design="at once")
    with pytest.raises(RankFailed, match="rank 0 was killed by SIGKILL"):
        run_ranks(partial(trains, 40, victim=0, at=25), world_size=3)
    version, share = load_server(path)
    assert version == 20
    first, held = run_ranks(trains, version, world_size=3)[0]  # nothing left to do
    assert first == version and torch.equal(held, share)
    first, again = run_ranks(trains, 40, world_size=3)[0]
    last, saved = load_server(path)
    assert (first, last) == (20, 40)
    assert torch.equal(again, saved) and not torch.equal(again, share)
