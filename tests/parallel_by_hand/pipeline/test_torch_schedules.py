"""torch's own schedules, read as ours."""

import pytest

from parallel_by_hand.pipeline.schedule_rules import timetable
from parallel_by_hand.pipeline.schedule_rules import timetable_length as length
from parallel_by_hand.pipeline.schedules import interleaved
from parallel_by_hand.pipeline.torch_schedules import torch_schedule


def test_interleaving_takes_equal_groups_only_as_torch_does():
    ours, torchs = interleaved(4, 10), torch_schedule("Interleaved1F1B", 4, 10)
    assert length(timetable(ours)) == length(timetable(torchs))
    for microbatches in 9, 11:
        with pytest.raises(ValueError, match="multiple of the number of rounds"):
            torch_schedule("Interleaved1F1B", 4, microbatches)
        with pytest.raises(ValueError, match="a multiple of 2"):
            interleaved(4, microbatches)


def test_a_dual_pipe_needs_a_micro_batch_for_each_stage():
    with pytest.raises(ValueError, match="at least as many microbatches as stages"):
        torch_schedule("DualPipeV", 2, 3)
