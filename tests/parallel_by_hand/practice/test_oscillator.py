"""The oscillator's data depend on the task alone, and its solver knows the cosine."""

import numpy as np

from parallel_by_hand.practice.oscillator import (
    oscillator_tasks,
    simulate_oscillator,
    solve_oscillator,
)


def test_a_tasks_data_depend_on_the_seed_and_its_number_only():
    few, many = oscillator_tasks(seed=3, count=2), oscillator_tasks(seed=3, count=5)
    assert np.array_equal(simulate_oscillator(few[1]), simulate_oscillator(many[1]))
    assert not np.array_equal(
        simulate_oscillator(few[1])[:, 1:], simulate_oscillator(few[0])[:, 1:]
    )
    assert not np.array_equal(
        simulate_oscillator(few[1]), simulate_oscillator(oscillator_tasks(4, 2)[1])
    )


def test_without_friction_the_oscillator_is_a_cosine():
    path = solve_oscillator(0, 1.0)
    np.testing.assert_allclose(path.y[0], np.cos(path.t), atol=1e-2)
