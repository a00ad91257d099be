"""Losses over time are those of the updates."""

from parallel_by_hand.parameter_server.digits_server import (
    digits_server_loss,
    losses_over_time,
    train_digits_with_server,
)
from sidebyside import run_ranks


def test_losses_are_those_of_the_updates_chosen():
    diary = run_ranks(
        train_digits_with_server, "in step", [0, 0], 0.5, 9, world_size=3
    )[0]
    rows = losses_over_time(diary, every=3)
    assert [row[0] for row in rows] == [0, 3, 6, 9]
    assert rows[-1][2] == digits_server_loss(diary[-1].share) < rows[0][2]
