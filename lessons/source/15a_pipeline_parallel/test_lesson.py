"""Lesson 15a: a schedule's rules, its costs, and that real ranks do what it says.

What the lesson claims about plans is tested on plans; that the executor computes the
gradients of the unsplit model is tested on real ranks, with many schedules in one
launch. Nothing here asserts how long something takes.
"""

import pytest

from parallel_by_hand.pipeline.measured_step import step_through_pipeline
from parallel_by_hand.pipeline.schedule_rules import bubble, timetable, timetable_length
from parallel_by_hand.pipeline.schedules import gpipe, naive, one_f_one_b
from sidebyside import run_ranks

SIZES = [(1, 1), (1, 5), (2, 3), (3, 2), (4, 8), (7, 5)]

# Plans ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [gpipe, one_f_one_b])
@pytest.mark.parametrize("backward", [1, 2, 0.5])
@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_the_bubble_has_the_textbook_size(make, backward, stages, microbatches):
    slots = timetable(make(stages, microbatches), 1, backward)
    assert bubble(slots) == pytest.approx((stages - 1) / (microbatches + stages - 1))
    assert timetable_length(slots) == pytest.approx(
        (1 + backward) * (microbatches + stages - 1)
    )


@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_naive_lets_one_rank_work_at_a_time(stages, microbatches):
    slots = timetable(naive(stages, microbatches))
    assert bubble(slots) == pytest.approx((stages - 1) / stages)


@pytest.mark.parametrize("make", [gpipe, one_f_one_b])
def test_a_pipeline_is_as_slow_as_its_slowest_stage(make):
    """However fast the others are, one more micro-batch costs what it takes there."""
    times = [1, 1, 3, 1]
    few, more = (
        timetable_length(timetable(make(4, m), times, times)) for m in (20, 30)
    )
    assert more - few == 10 * (3 + 3)


# Real ranks -------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 8])
def test_what_crosses_a_cut_is_the_batch_however_it_is_cut(m):
    """64 samples of 64 numbers of 4 bytes, each way; memory as the scorecard says."""
    ranks = run_ranks(step_through_pipeline, gpipe(3, m), 6, world_size=3)
    assert [rank["sent"] for rank in ranks] == [16384, 32768, 16384]
    for rank in ranks:
        assert rank["parameters"] == rank["gradient"] == 2 * (64 * 64 + 64) * 4
        assert rank["optimiser"] == 2 * rank["parameters"] + 4 * 4
    assert [rank["activations"] for rank in ranks] == [49152, 49152, 65536]
