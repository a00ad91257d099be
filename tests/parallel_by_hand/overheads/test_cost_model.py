"""The fit gives back the costs that made the times, and none is below zero."""

import math
import random

import pytest

from parallel_by_hand.overheads.cost_model import Costs, fit_costs


@pytest.mark.parametrize("at_once", [1.7, 3.0, math.inf])
def test_the_fit_finds_the_costs_that_made_the_times(at_once):
    dice = random.Random(1)
    for _ in range(50):
        costs = Costs(
            dice.uniform(0, 1), dice.uniform(0.1, 10), dice.uniform(0.01, 0.5)
        )
        times = {k: [costs.seconds(k, at_once)] * 3 for k in (1, 2, 3, 4, 8)}
        assert fit_costs(times, at_once) == pytest.approx(costs, abs=1e-8)


def test_with_one_core_a_and_c_are_found_if_b_is_known():
    costs = Costs(0.3, 0.4, 0.02)
    times = {k: [costs.seconds(k, at_once=1)] for k in (1, 2, 3, 4)}
    assert fit_costs(times, 1, b=0.4) == pytest.approx(costs, abs=1e-8)
    assert fit_costs(times, 1) != pytest.approx(costs, abs=1e-2), "b goes into a"


def test_more_workers_than_can_work_at_once_only_cost():
    costs = Costs(0.0, 1.0, 0.01)
    times = [costs.seconds(k, at_once=2) for k in range(2, 9)]
    assert times == sorted(times)
    assert costs.best(8, at_once=2) == 2
