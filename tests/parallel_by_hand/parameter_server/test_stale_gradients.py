"""The largest stable step is the theorem's."""

from functools import partial

import pytest

from parallel_by_hand.parameter_server import (
    stale_gradients,
)


@pytest.mark.parametrize("delay", [0, 1, 4, 16])
@pytest.mark.parametrize("curvature", [1.0, 25.0])
def test_the_largest_stable_step_is_the_theorems_within_one_percent(delay, curvature):
    found = stale_gradients.found_stable_step(curvature, delay)
    formula = stale_gradients.predicted_stable_step(curvature, delay)
    assert found == pytest.approx(formula, rel=0.01)


def test_a_delay_of_one_halves_the_step_and_a_long_one_divides_it():
    predicted = partial(stale_gradients.predicted_stable_step, 1.0)
    assert predicted(1) == pytest.approx(predicted(0) / 2)
    assert predicted(32) / predicted(16) == pytest.approx(0.5, rel=0.02)
