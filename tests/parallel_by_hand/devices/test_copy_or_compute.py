"""A product away is the product here; its messages and times are the formulas'."""

import pytest
import torch

from parallel_by_hand.devices import copy_or_compute
from sidebyside import MessageMeter, device, run_ranks


def test_the_product_away_is_the_product_here():
    pair = torch.rand(2, 5, 5, generator=torch.Generator().manual_seed(0))
    away = run_ranks(copy_or_compute.multiply_in_other_rank, pair)[0]
    torch.testing.assert_close(away, pair[0] @ pair[1])
    by_loops = torch.tensor(copy_or_compute.multiply_in_python(*pair.tolist()))
    torch.testing.assert_close(by_loops, pair[0] @ pair[1])


@pytest.mark.parametrize(("n", "here", "away"), [(1, 1, 4.02), (10, 1000, 321)])
def test_here_and_away_are_predicted_by_the_formulas_of_the_text(n, here, away):
    """By hand: 2 n³ / 2 here, and 2 · 0.5 + 12 n² · 0.25 + 2 n³ / 100 away."""
    costs = {"host": 2.0, "device": 100.0, "alpha": 0.5, "beta": 0.25}
    predicted = copy_or_compute.predict_here_and_away(n, costs)
    assert predicted == pytest.approx((here, away))


def meter_product_away(n: int) -> tuple[int, int]:
    """Runs in each of two ranks: messages and bytes that it sends."""
    with MessageMeter() as meter:
        copy_or_compute.multiply_in_other_rank(torch.rand(2, n, n, device=device()))
    return meter.messages_sent, meter.bytes_sent


def test_a_product_away_is_two_messages_and_the_bytes_of_the_formula():
    assert run_ranks(meter_product_away, 5) == [(1, 8 * 5**2), (1, 4 * 5**2)]


def test_the_size_that_pays_is_the_first_of_an_unbroken_row():
    first = copy_or_compute.first_that_pays
    assert first({2: (1, 2), 4: (2, 1), 8: (1, 2), 16: (3, 2), 32: (9, 2)}) == 16
    assert first({2: (1, 2), 4: (2, 2)}) is None
