"""A checkpoint that is written while training goes on has the moment of saving."""

import pytest
import torch

from parallel_by_hand.sharding.background_checkpoint import train_and_save
from sidebyside import run_ranks


@pytest.mark.parametrize(
    ("ranks", "tensor"),
    [
        (2, 1),
        pytest.param(3, 1, marks=pytest.mark.everything),
        pytest.param(4, 2, marks=pytest.mark.everything),
    ],
)
def test_other_ranks_go_on_from_the_moment_of_saving(ranks, tensor, tmp_path):
    folder = str(tmp_path / "saved")
    whole = run_ranks(train_and_save, folder, 0, 6, 3, 2, world_size=4)
    resumed = run_ranks(train_and_save, folder, 3, 6, None, tensor, world_size=ranks)
    torch.testing.assert_close(
        torch.tensor(resumed), torch.tensor(whole[:ranks])[:, 3:], atol=1e-5, rtol=0
    )
