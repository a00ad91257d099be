"""Lesson 15b: what schedules keep, and what is gained by computing again or later.

Plans are judged on paper; gradients and bytes come from real ranks. Nothing here
asserts how long something takes.
"""

import pytest

from parallel_by_hand.pipeline.measured_step import (
    step_through_pipeline,
)
from parallel_by_hand.pipeline.schedule_rules import (
    peak_activations,
)
from parallel_by_hand.pipeline.schedules import (
    gpipe,
    interleaved,
    one_f_one_b,
    zero_bubble,
)
from sidebyside import RankFailed, run_ranks

SIZES = [(1, 1), (1, 5), (2, 3), (3, 2), (4, 8), (7, 5)]

# Plans ------------------------------------------------------------------------------


@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_gpipe_keeps_the_batch_and_1f1b_at_most_one_for_each_stage(
    stages, microbatches
):
    assert peak_activations(gpipe(stages, microbatches)) == [microbatches] * stages
    assert peak_activations(one_f_one_b(stages, microbatches)) == [
        min(stages - rank, microbatches) for rank in range(stages)
    ]


def test_interleaving_refuses_what_does_not_divide():
    with pytest.raises(ValueError, match="multiple of 2"):
        interleaved(4, 9)


# Real ranks -------------------------------------------------------------------------


def test_recomputation_needs_whole_backwards():
    with pytest.raises(RankFailed, match="recompute needs a schedule without W"):
        run_ranks(step_through_pipeline, zero_bubble(1, 2), 1, True, world_size=1)
