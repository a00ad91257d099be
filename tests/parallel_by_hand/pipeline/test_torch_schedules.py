"""torch's own schedules, read as ours."""

import pytest

from parallel_by_hand.pipeline.schedule_rules import (
    homes_of_stages,
    peak_activations,
    timetable,
)
from parallel_by_hand.pipeline.schedule_rules import timetable_length as length
from parallel_by_hand.pipeline.schedules import interleaved, zero_bubble
from parallel_by_hand.pipeline.torch_schedules import torch_schedule


def test_a_v_halves_the_wait_of_zero_bubble_and_keeps_no_more():
    plan = torch_schedule("ZBVZeroBubble", 3, 6)
    assert homes_of_stages(plan) == [0, 1, 2, 2, 1, 0]
    work = 3 * 2 * 6  # F, B and W of two thin stages
    assert length(timetable(zero_bubble(3, 6), 2, 2, 2)) - work == 2 * (3 - 1)
    interleaved_too = torch_schedule("InterleavedZeroBubble", 3, 6)
    assert length(timetable(plan)) == length(timetable(interleaved_too)) == work + 2
    thin = [2 * kept for kept in peak_activations(zero_bubble(3, 6))]
    assert peak_activations(plan) == peak_activations(interleaved_too) == thin


@pytest.mark.parametrize("microbatches", [10, 9, 11])
def test_interleaving_takes_equal_groups_only_as_torch_does(microbatches):
    if microbatches == 10:
        ours = timetable(interleaved(4, 10))
        assert length(ours) == length(
            timetable(torch_schedule("Interleaved1F1B", 4, 10))
        )
        return
    with pytest.raises(ValueError, match="multiple of the number of rounds"):
        torch_schedule("Interleaved1F1B", 4, microbatches)
    with pytest.raises(ValueError, match="a multiple of 2"):
        interleaved(4, microbatches)


def test_a_dual_pipe_needs_a_micro_batch_for_each_stage():
    with pytest.raises(ValueError, match="at least as many microbatches as stages"):
        torch_schedule("DualPipeV", 2, 3)
