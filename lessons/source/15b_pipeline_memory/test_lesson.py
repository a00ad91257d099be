"""Lesson 15b: what schedules keep, and what is gained by computing again or later.

Plans are judged on paper; gradients and bytes come from real ranks. Nothing here
asserts how long something takes.
"""

import pytest
import torch

from parallel_by_hand.pipeline.measured_step import (
    gradients_by_layer,
    step_through_pipeline,
)
from parallel_by_hand.pipeline.schedule_drawing import schedule_text
from parallel_by_hand.pipeline.schedule_rules import (
    peak_activations,
    timetable,
    timetable_length,
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


def _paper_throughput(ranks: int, m: int) -> float:
    """GPipe that recomputes as soon as it can: batches in the time of 4 ranks * m.

    A forward takes 1, so does the second one, a backward 2. A rank computes again
    when it is free, and goes back when the gradient is there, too.
    """
    forwards = m + ranks - 1
    arrived = [0.0] * m
    for stage in reversed(range(ranks)):
        free, done = float(m + stage), []
        for number in range(m):
            again = free + 1
            start = max(again, arrived[number])
            free = start + 2
            done.append(free)
        arrived = done
    assert arrived[-1] == 3 * forwards + m, "as the lesson says"
    return ranks * m / arrived[-1]


def test_the_paper_lies_where_the_lesson_says():
    """GPipe, table 2, Transformer (Huang et al. 2019); the base is K = 2, M = 1."""
    base = _paper_throughput(2, 1)
    assert _paper_throughput(4, 1) / base == pytest.approx(1.08, abs=0.005)
    for stages, paper in [(2, 1.8), (4, 3.4), (8, 6.3)]:
        formula = stages * 32 / (32 + stages - 1)
        in_bubble = _paper_throughput(stages, 32) / base
        assert round(100 * (paper / formula - 1)) in range(-7, -3)
        assert round(100 * (paper / in_bubble - 1)) in (4, 5)
    assert round(100 * (4.8 / (8 * 4 / (4 + 8 - 1)) - 1)) == 65


@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_zero_bubble_waits_less_and_keeps_no_more_than_rank_0_of_1f1b(
    stages, microbatches
):
    schedule = zero_bubble(stages, microbatches)
    length = timetable_length(timetable(schedule))
    assert length <= 3 * (microbatches + stages - 1), "1F1B's, if a backward takes 2"
    if microbatches >= stages:
        assert length == 3 * microbatches + stages - 1
    most = min(stages, microbatches)
    assert peak_activations(schedule) == [most] * stages


@pytest.mark.parametrize("v", [1, 2, 4])
def test_idle_slots_are_those_of_the_scorecard(v):
    """p = 4 and m = 8; a whole stage takes 1 forward and 2 backward."""
    slots = timetable(interleaved(4, 8, v), 1 / v, 2 / v)
    assert timetable_length(slots) == pytest.approx(24 + 9 / v)


def test_parts_of_a_backward_take_their_own_times():
    schedule = [["F0", "B0", "W0"]]
    assert timetable_length(timetable(schedule, 1, 2, 4)) == 7
    assert schedule_text(timetable(schedule, 1, 1, 2)).splitlines()[0] == (
        "rank 0 | F0 B0 W0 W0"
    )


# Real ranks -------------------------------------------------------------------------


def test_kept_bytes_are_those_that_the_lesson_derives():
    """Layers of 64 x 64 numbers of 4 bytes; the last rank keeps the targets, too."""
    unit = 64 * 64 * 4
    for m in 2, 8:
        ranks = run_ranks(step_through_pipeline, gpipe(2, m), 8, world_size=2)
        assert [rank["activations"] for rank in ranks] == [5 * unit, 6 * unit]
    ranks = run_ranks(step_through_pipeline, one_f_one_b(2, 8), 8, world_size=2)
    assert [rank["activations"] * 8 for rank in ranks] == [2 * 5 * unit, 6 * unit]


@pytest.mark.parametrize("make", [gpipe, one_f_one_b, interleaved])
def test_recomputation_keeps_inputs_and_one_micro_batch_and_changes_no_gradient(make):
    unit, layers, m = 64 * 64 * 4, 8, 8
    one_piece = run_ranks(step_through_pipeline, gpipe(1, 1), layers, world_size=1)
    ranks = run_ranks(step_through_pipeline, make(2, m), layers, True, world_size=2)
    for ours, theirs in zip(
        gradients_by_layer(ranks), gradients_by_layer(one_piece), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    inputs = peak_activations(make(2, m))[0] * unit // m
    of_a_stage = layers // (4 if make is interleaved else 2)
    assert ranks[0]["activations"] == inputs + of_a_stage * unit // m


def test_recomputation_needs_whole_backwards():
    with pytest.raises(RankFailed, match="recompute needs a schedule without W"):
        run_ranks(step_through_pipeline, zero_bubble(1, 2), 1, True, world_size=1)
