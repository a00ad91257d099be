"""Lesson 15b: what schedules keep, and what is gained by computing again or later.

Plans are judged on paper; gradients and bytes come from real ranks. Nothing here
asserts how long something takes.
"""

from pathlib import Path

import pytest
import torch

from parallel_by_hand.pipeline.measured_step import (
    gradients_by_layer,
    step_through_pipeline,
)
from parallel_by_hand.pipeline.rehearsal import rehearse
from parallel_by_hand.pipeline.schedule_drawing import schedule_text
from parallel_by_hand.pipeline.schedule_rules import (
    bubble,
    peak_activations,
    timetable,
    timetable_length,
    verdict,
)
from parallel_by_hand.pipeline.schedules import (
    gpipe,
    interleaved,
    one_f_one_b,
    zero_bubble,
)
from parallel_by_hand.pipeline.workbench import workbench
from sidebyside import RankFailed, run_ranks
from sidebyside.course.lesson_format import read_lesson, solved

SIZES = [(1, 1), (1, 5), (2, 3), (3, 2), (4, 8), (7, 5)]

# Plans ------------------------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "chunks", "m"), [(2, 2, 4), (4, 2, 8), (3, 4, 6)])
def test_thin_stages_make_the_bubble_smaller(ranks, chunks, m):
    slots = timetable(interleaved(ranks, m, chunks))
    assert bubble(slots) == pytest.approx((ranks - 1) / (chunks * m + ranks - 1))


@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_gpipe_keeps_the_batch_and_1f1b_at_most_one_for_each_stage(
    stages, microbatches
):
    assert peak_activations(gpipe(stages, microbatches)) == [microbatches] * stages
    assert peak_activations(one_f_one_b(stages, microbatches)) == [
        min(stages - rank, microbatches) for rank in range(stages)
    ]


def test_thin_stages_keep_more_as_the_lesson_says():
    """Counts of pieces: a thin one keeps two tensors, a thick one three."""
    assert peak_activations(one_f_one_b(4, 8)) == [4, 3, 2, 1]
    assert peak_activations(interleaved(4, 8)) == [11, 9, 7, 5]


def test_interleaving_refuses_what_does_not_divide():
    with pytest.raises(ValueError, match="multiple of 4"):
        interleaved(4, 6)


def test_the_paper_agrees_with_the_formula_where_the_lesson_says_so():
    """GPipe, table 2, Transformer, M = 32: 4 to 7 % below (Huang et al. 2019)."""
    for stages, paper in [(2, 1.8), (4, 3.4), (8, 6.3)]:
        slots = timetable(gpipe(stages, 32))
        formula = stages * (1 - bubble(slots))
        assert formula == pytest.approx(stages * 32 / (32 + stages - 1))
        assert round(100 * (paper - formula) / formula) in range(-7, -3)


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


def test_recomputation_in_the_bubble_explains_what_the_lesson_says():
    """The paper's 1.07 for K = 4, M = 1; with M = 32 it is 4 to 5 % above."""
    base = _paper_throughput(2, 1)
    assert _paper_throughput(4, 1) / base == pytest.approx(1.08, abs=0.005)
    for stages, paper in [(2, 1.8), (4, 3.4), (8, 6.3)]:
        ours = _paper_throughput(stages, 32) / base
        assert round(100 * (paper - ours) / ours) in (4, 5)


def test_without_recomputation_the_paper_is_above_the_formula_by_up_to_65_percent():
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


def test_three_ranks_take_18_slots_or_16_or_14():
    right_after = [
        [work for i in order for work in ([i, f"W{i[1:]}"] if i[0] == "B" else [i])]
        for order in one_f_one_b(3, 4)
    ]
    assert timetable_length(timetable(one_f_one_b(3, 4), 1, 2)) == 18
    assert timetable_length(timetable(right_after)) == 16
    assert timetable_length(timetable(zero_bubble(3, 4))) == 14
    source = read_lesson(Path(__file__).parent).code("15b-zero-bubble")
    names = {}
    exec(solved(source), names)
    assert names["fills_the_gaps"] == zero_bubble(3, 4)


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


def test_sleeping_ranks_do_both_parts_of_a_backward():
    schedule = zero_bubble(2, 3)
    done = rehearse(schedule, 1, 2, 3, seconds=0.005)
    for rank, order in enumerate(schedule):
        assert [slot.instruction for slot in done if slot.rank == rank] == order
    for slot in done:
        assert slot.end - slot.start >= {"F": 1, "B": 2, "W": 3}[slot.instruction[0]]


def test_the_workbench_knows_w(capsys):
    assert verdict(zero_bubble(2, 2)) == "legal"
    assert workbench(zero_bubble(2, 2), weights=2, seconds=0.005) is not None
    assert "planned:  9 slots" in capsys.readouterr().out
