"""Lesson 15b: what can't be computed again is refused; its plans are its cells'."""

import pytest

from parallel_by_hand.pipeline.measured_step import step_through_pipeline
from parallel_by_hand.pipeline.schedules import zero_bubble
from sidebyside import RankFailed, run_ranks


def test_recomputation_needs_whole_backwards():
    with pytest.raises(RankFailed, match="recompute needs a schedule without W"):
        run_ranks(step_through_pipeline, zero_bubble(1, 2), 1, True, world_size=1)
