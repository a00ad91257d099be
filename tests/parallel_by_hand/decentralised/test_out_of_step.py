"""In step or out of it, gossip keeps the sum."""

import pytest

from parallel_by_hand.decentralised.out_of_step import in_step, out_of_step
from sidebyside import run_ranks


@pytest.mark.parametrize("ranks, total", [(2, 11), (4, 1111)])
@pytest.mark.parametrize("way", [in_step, out_of_step])
def test_in_step_or_out_of_it_the_sum_stays(way, ranks, total):
    ended = run_ranks(way, [0.01, 0.03, 0.01, 0.01], 0.15, world_size=ranks)
    assert sum(number for _, number in ended) == pytest.approx(total, rel=1e-4)
    assert all(steps > 0 for steps, _ in ended)


def test_in_step_all_make_as_many_steps_as_the_slowest():
    ended = run_ranks(in_step, [0.01, 0.03, 0.01, 0.01], 0.15, world_size=4)
    assert {steps for steps, _ in ended} == {5}


def test_out_of_step_nobody_waits_for_a_slow_peer():
    seconds = [0.03, 0.09, 0.03, 0.03]
    for _ in range(5):
        steps = [made for made, _ in run_ranks(out_of_step, seconds, 0.9, world_size=4)]
        slow = steps.pop(1)
        assert slow <= 10  # that its naps make sure
        if min(steps) > 1.5 * slow:  # those who wait make as many
            return
    pytest.fail(f"the slow peer made {slow} steps, the others {steps}")
