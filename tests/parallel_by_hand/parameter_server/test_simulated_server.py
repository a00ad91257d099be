"""The simulated server makes the updates that a real one would."""

import torch

from parallel_by_hand.parameter_server.digits_server import (
    DigitsGradient,
    digits_start,
)
from parallel_by_hand.parameter_server.simulated_server import (
    simulate_at_once,
    simulate_in_step,
)


def test_a_simulated_server_makes_the_updates_that_a_real_one_would():
    _, staleness = simulate_at_once(3, 10.5, lambda stale: 0.1)
    assert len(staleness) == 31  # ten gradients of each, and the one that ends it
    assert staleness[:3] == [0, 1, 2] and set(staleness[3:]) == {2}
    _, fresh = simulate_at_once(1, 10.5, lambda stale: 0.1)
    assert set(fresh) == {0} and len(fresh) == 11


def test_a_simulated_round_without_backup_is_sgd_with_the_mean_gradient():
    parameters, rounds, thrown = simulate_in_step(3, 3, 5.5, 0.5)
    gradient_of = [DigitsGradient(worker) for worker in range(3)]
    expected = digits_start()
    for version in range(rounds):
        gradients = torch.stack([g(expected, version) for g in gradient_of])
        expected = expected - 0.5 * gradients.mean(0)
    assert (rounds, thrown) == (5, 0)
    torch.testing.assert_close(parameters, expected)
