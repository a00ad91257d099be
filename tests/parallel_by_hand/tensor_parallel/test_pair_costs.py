"""What a pair of split layers costs, by formula and asleep."""

import pytest

from parallel_by_hand.tensor_parallel import pair_costs
from sidebyside import run_ranks


def test_the_share_of_communication_is_counted_from_operations_and_bytes():
    ranks, width, samples, flops, speed = 4, 32, 7, 1e9, 1e6
    operations = 3 * 2 * samples * (width * 4 * width * 2)  # backward: twice forward
    carried = 2 * 2 * (ranks - 1) / ranks * samples * width * 2  # two all-reduces
    expected = (carried / speed) / (operations / ranks / flops)
    share = pair_costs.communication_over_arithmetic(ranks, width, flops, speed)
    assert share == pytest.approx(expected)
    assert share == pytest.approx((ranks - 1) * flops / speed / (6 * width))


def slept_in_step() -> float:
    slept = []
    pair_costs.sleep = slept.append
    pair_costs.step_of_pair(0.6, 80, 0.0, 0.0)
    return sum(slept)


def test_a_rank_computes_its_share_of_the_work():
    assert run_ranks(slept_in_step, world_size=3) == [pytest.approx(0.2)] * 3
