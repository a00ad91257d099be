"""Lesson 15a: a schedule's rules, its costs, and that real ranks do what it says.

What the lesson claims about plans is tested on plans; that the executor computes the
gradients of the unsplit model is tested on real ranks, with many schedules in one
launch. Nothing here asserts how long something takes.
"""

import random
import re
from itertools import combinations

import pytest
import torch
import torch.distributed as dist

from demos.pipeline import own_pipeline
from parallel_by_hand.pipeline.measured_step import step_through_pipeline
from parallel_by_hand.pipeline.pipeline_beside_torch import (
    SCHEDULES_OF_BOTH,
    both_pipelines_in_turn,
)
from parallel_by_hand.pipeline.rehearsal import rehearse
from parallel_by_hand.pipeline.schedule_drawing import draw_schedule, schedule_text
from parallel_by_hand.pipeline.schedule_rules import (
    IllegalSchedule,
    Slot,
    bubble,
    needs,
    peak_activations,
    timetable,
    timetable_length,
    verdict,
)
from parallel_by_hand.pipeline.schedules import (
    gpipe,
    interleaved,
    naive,
    one_f_one_b,
    read_instruction,
    read_schedule,
    zero_bubble,
)
from parallel_by_hand.pipeline.workbench import workbench
from sidebyside import RankFailed, run_ranks

from .pipelines_beside_whole import (
    layers_of_each_rank,
    train_pipelines_of_ranks,
    train_without_pipeline,
)

SIZES = [(1, 1), (1, 5), (2, 3), (3, 2), (4, 8), (7, 5)]
MADE = [naive, gpipe, one_f_one_b, zero_bubble]

# Plans ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_a_timetable_keeps_every_rule(make, stages, microbatches):
    schedule = make(stages, microbatches)
    slots = timetable(schedule, forward=range(1, stages + 1), backward=2)
    assert verdict(schedule) == "legal"
    kinds = 3 if make is zero_bubble else 2
    assert len(slots) == kinds * stages * microbatches
    _expect_the_rules(slots, stages)


@pytest.mark.parametrize(("ranks", "chunks", "microbatches"), [(2, 2, 4), (4, 3, 8)])
def test_an_interleaved_timetable_keeps_every_rule(ranks, chunks, microbatches):
    slots = timetable(interleaved(ranks, microbatches, chunks))
    assert len(slots) == 2 * ranks * chunks * microbatches
    _expect_the_rules(slots, ranks * chunks)


def _expect_the_rules(slots: list[Slot], stages: int) -> None:
    at = {read_instruction(slot.instruction, slot.rank): slot for slot in slots}
    for work, slot in at.items():
        for before in needs(work, stages):
            assert at[before].end <= slot.start
    for one, other in combinations(slots, 2):
        together = one.start < other.end and other.start < one.end
        assert not (one.rank == other.rank and together)


def test_what_an_instruction_needs():
    from parallel_by_hand.pipeline.schedules import ScheduledWork

    assert needs(ScheduledWork("W", 1, 3), 3) == [ScheduledWork("B", 1, 3)]
    assert needs(ScheduledWork("F", 0, 3), 3) == []
    assert needs(ScheduledWork("F", 2, 3), 3) == [ScheduledWork("F", 1, 3)]
    assert needs(ScheduledWork("B", 2, 3), 3) == [ScheduledWork("F", 2, 3)]
    assert needs(ScheduledWork("B", 1, 3), 3) == [
        ScheduledWork("F", 1, 3),
        ScheduledWork("B", 2, 3),
    ]


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


def test_three_samples_on_three_stages_take_nine_slots_or_five():
    def forward_only(step: int) -> list[Slot]:
        starts = [(step * i + s, i, s) for i in range(3) for s in range(3)]
        return [Slot(start, start + 1, s, f"F{i}") for start, i, s in starts]

    assert timetable_length(forward_only(3)) == 9
    assert timetable_length(forward_only(1)) == 5


@pytest.mark.parametrize("make", [gpipe, one_f_one_b])
def test_a_pipeline_is_as_slow_as_its_slowest_stage(make):
    """However fast the others are, one more micro-batch costs what it takes there."""
    times = [1, 1, 3, 1]
    few, more = (
        timetable_length(timetable(make(4, m), times, times)) for m in (20, 30)
    )
    assert more - few == 10 * (3 + 3)


@pytest.mark.parametrize(("make", "length"), [(gpipe, 38), (one_f_one_b, 36)])
def test_unequal_stages_wait_as_the_lesson_says(make, length):
    slots = timetable(make(4, 8), [1, 1, 2, 1], [1, 1, 2, 1])
    assert timetable_length(slots) == length


ILLEGAL = [
    ([["F0", "B0", "F1", "B1"], ["F0", "F1", "B0", "B1"]], "everyone waits: rank 0 c"),
    ([["F0", "F1", "B0", "B1"], ["F0", "B1", "F1", "B0"]], "rank 1 runs B1 before F1"),
    ([["F0", "B0"], []], "rank 1 never runs F0"),
    ([["F0"], ["F0", "B0"]], "rank 0 never runs B0"),
    ([["F0", "B0", "F2", "B2"]], "rank 0 never runs F1"),
    ([["F0", "F0", "B0"]], "rank 0 runs F0 twice"),
    ([["B0", "F0"]], "rank 0 runs B0 before F0"),
    ([["F0", "V0"]], "'V0' is no instruction"),
    ([["F0", "W0", "B0"]], "rank 0 runs W0 before B0: W needs the gradients"),
    ([["F0", "B0", "W0"], ["F0", "B0"]], "rank 1 never runs W0"),
    ([["F0", "B0", "W0", "W0"]], "rank 0 runs W0 twice"),
    ([["F0", 3]], "3 is no instruction"),
    ([["0F0", "1F0"], ["1F0"]], "stage 1 lives on rank 1"),
    (["F0 B0", "F0 B0"], "rank 0: each rank needs a list, not a string"),
    ([["F0", "B0"], None], "rank 1: each rank needs a list, not None"),
    ([[], []], "the schedule is empty"),
    ([], "the schedule is empty"),
    ([["0F0", "2F0", "2B0", "0B0"], ["1F0"]], "rank 1 never runs 1B0"),
]


@pytest.mark.parametrize(("schedule", "why"), ILLEGAL)
def test_an_illegal_schedule_is_explained(schedule, why):
    said = verdict(schedule)
    assert why in said
    assert "\n" not in said
    with pytest.raises(IllegalSchedule, match=r"rank|schedule") as error:
        timetable(schedule)
    of_rank = re.match(r"rank (\d+)", said)
    assert error.value.rank == (int(of_rank[1]) if of_rank else None)


def test_a_deadlock_names_who_waits_for_whom():
    with pytest.raises(IllegalSchedule) as error:
        timetable([["F0", "B0", "F1", "B1"], ["F0", "F1", "B0", "B1"]])
    said = str(error.value)
    assert "rank 0 cannot start B0 before rank 1 has done B0" in said
    assert "rank 1 cannot start F1 before rank 0 has done F1" in said


def test_the_verdict_is_the_truth_about_random_orders():
    """Any order that a pipeline could follow is legal; what it forbids is not.

    Slots are filled at random, as the rules allow: the orders that arise are legal.
    Then two instructions of one rank change places; legal or not, `verdict` must agree
    with a search that knows nothing but the rules.
    """
    dice = random.Random(15)
    seen = {True: 0, False: 0}
    for _ in range(200):
        stages, microbatches = dice.randint(1, 4), dice.randint(1, 4)
        kinds = dice.choice(["FB", "FBW"])
        schedule = _random_schedule(dice, stages, microbatches, kinds)
        assert verdict(schedule) == "legal"
        order = dice.choice(schedule)
        a, b = dice.randrange(len(order)), dice.randrange(len(order))
        order[a], order[b] = order[b], order[a]
        possible = _has_no_cycle(schedule, stages)
        assert (verdict(schedule) == "legal") is possible
        seen[possible] += 1
    assert min(seen.values()) > 20


def _random_schedule(dice, stages: int, microbatches: int, kinds="FB") -> list:
    from parallel_by_hand.pipeline.schedules import ScheduledWork

    todo = {
        ScheduledWork(kind, stage, m)
        for kind in kinds
        for stage in range(stages)
        for m in range(microbatches)
    }
    schedule, done = [[] for _ in range(stages)], set()
    while todo:
        can = [work for work in sorted(todo) if set(needs(work, stages)) <= done]
        work = dice.choice(can)
        schedule[work.stage].append(f"{work.kind}{work.microbatch}")
        done.add(work)
        todo.remove(work)
    return schedule


def _has_no_cycle(schedule, stages: int) -> bool:
    """Take away, again and again, what has nothing before it."""
    before = {}
    for rank, order in enumerate(schedule):
        for place, instruction in enumerate(order):
            work = read_instruction(instruction, rank)
            before[work] = set(needs(work, stages))
            if place:
                before[work].add(read_instruction(order[place - 1], rank))
    while free := [work for work, others in before.items() if not others]:
        for work in free:
            del before[work]
        for others in before.values():
            others.difference_update(free)
    return not before


def test_a_schedule_is_read_as_it_is_written():
    for schedule in gpipe(3, 12), interleaved(2, 4):
        lines = "\n".join(" ".join(order) for order in schedule)
        assert read_schedule(f"# mine\n\n{lines}  # end\n") == schedule


def test_the_drawing_in_letters():
    assert schedule_text(timetable(gpipe(2, 2), 1, [1, 2])).splitlines() == [
        "rank 0 | F0 F1 .  .  .  B0 .  B1",
        "rank 1 | .  F0 F1 B0 B0 B1 B1 .",
        "bubble 37.5 %",
    ]


def test_drawings_in_letters_side_by_side_have_one_time_axis():
    thick, thin = timetable(gpipe(2, 2), 2, 2), timetable(interleaved(2, 2))
    assert (timetable_length(thick), timetable_length(thin)) == (12, 10)
    assert draw_schedule({"thick": thick, "thin": thin}).alt.splitlines()[2:7] == [
        "rank 0 | F0  F0  F1  F1  .   .   .   .   B0  B0  B1  B1",
        "rank 1 | .   .   F0  F0  F1  F1  B0  B0  B1  B1  .   .",
        "bubble 33.3 %",
        "thin",
        "rank 0 | 0F0 0F1 2F0 2F1 .   2B0 .   2B1 0B0 0B1",
    ]


def test_the_drawing_says_what_it_shows():
    planned = draw_schedule({"GPipe": timetable(gpipe(2, 2))})
    assert "rank 0 | F0 F1 .  .  B0 B1" in planned.alt
    assert planned._repr_png_().startswith(b"\x89PNG")
    measured = draw_schedule(timetable(gpipe(2, 2)), stamp="measured here")
    assert measured.alt == "schedule, measured here"


# Real ranks -------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_any_legal_schedule_gives_the_gradients_of_the_unsplit_model(ranks):
    dice = random.Random(ranks)
    schedules = [make(ranks, m) for make in MADE for m in (1, 4)]
    schedules += [interleaved(ranks, 4)]
    schedules += [_random_schedule(dice, ranks, 6, k) for k in ["FB", "FBW"] * 2]
    results = run_ranks(train_pipelines_of_ranks, schedules, world_size=ranks)
    whole = train_without_pipeline()
    for number, schedule in enumerate(schedules):
        of_ranks = [rank[number] for rank in results]
        for step, (loss, gradients) in enumerate(whole):
            assert of_ranks[-1][step][0] == pytest.approx(loss, abs=1e-6)
            by_stage = {}
            for rank in of_ranks:
                by_stage |= rank[step][1]
            flat = [g for stage in sorted(by_stage) for g in by_stage[stage]]
            torch.testing.assert_close(flat, gradients, rtol=0, atol=1e-6)
        kept = [rank[0][2] for rank in of_ranks]
        assert kept == peak_activations(schedule)
        assert all(rank[0][4] == 0 for rank in of_ranks), "all was let go"


@pytest.mark.parametrize("m", [2, 8])
def test_what_crosses_a_cut_is_the_batch_however_it_is_cut(m):
    """64 samples of 64 numbers of 4 bytes, each way; memory as the scorecard says."""
    ranks = run_ranks(step_through_pipeline, gpipe(3, m), 6, world_size=3)
    assert [rank["sent"] for rank in ranks] == [16384, 32768, 16384]
    for rank in ranks:
        assert rank["parameters"] == rank["gradient"] == 2 * (64 * 64 + 64) * 4
        assert rank["optimiser"] == 2 * rank["parameters"] + 4 * 4
    assert [rank["activations"] for rank in ranks] == [49152, 49152, 65536]


def test_the_bytes_that_are_kept_follow_the_plan():
    """GPipe keeps the whole batch however it is cut; 1F1B keeps p - r of m parts."""
    schedules = [gpipe(2, 4), gpipe(2, 8), one_f_one_b(2, 8), one_f_one_b(2, 4)]
    for rank, found in enumerate(
        run_ranks(train_pipelines_of_ranks, schedules, world_size=2)
    ):
        coarse, fine, early, early_coarse = (steps[0][3] for steps in found)
        assert coarse == fine
        assert early * 8 == fine * (2 - rank)
        assert early_coarse * 4 == coarse * (2 - rank)


def test_layers_are_dealt_as_asked():
    assert run_ranks(layers_of_each_rank, [3, 5], world_size=2) == [[3], [5]]


def test_a_batch_that_cannot_be_cut_is_refused():
    with pytest.raises(RankFailed, match="24 cannot be cut into 5 equal"):
        run_ranks(train_pipelines_of_ranks, [gpipe(2, 5)], world_size=2)


def test_a_schedule_needs_its_number_of_ranks():
    with pytest.raises(RankFailed, match="for 3 ranks and there are 2"):
        run_ranks(train_pipelines_of_ranks, [gpipe(3, 2)], world_size=2)


@pytest.mark.parametrize("make", SCHEDULES_OF_BOTH)
def test_ours_and_torchs_pipeline_learn_the_same(make):
    found = run_ranks(both_pipelines_in_turn, make, 4, 32, 16, 3, world_size=2)[-1]
    assert len(found["ours"]) == len(found["torch"]) == 4
    for ours, theirs in zip(found["ours"], found["torch"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
    assert found["ours"][0] != found["ours"][-1], "it has learned something"


def test_sleeping_ranks_do_what_the_plan_says_in_its_order():
    schedule = one_f_one_b(3, 4)
    done = rehearse(schedule, [1, 2, 1], 1, seconds=0.005)
    for rank, order in enumerate(schedule):
        assert [slot.instruction for slot in done if slot.rank == rank] == order
    at = {read_instruction(slot.instruction, slot.rank): slot for slot in done}
    for work, slot in at.items():
        for before in needs(work, 3):
            assert at[before].end <= slot.start
        longer = 2 if work == work._replace(kind="F", stage=1) else 1
        assert slot.end - slot.start >= longer


def test_the_workbench_answers(capsys):
    assert workbench([["F0"], ["F0", "B0"]]) is None
    assert "illegal: rank 0 never runs B0" in capsys.readouterr().out
    assert workbench(gpipe(2, 2), seconds=0.005) is not None
    assert "planned:  6 slots, bubble 33.3 %" in capsys.readouterr().out


# The script of your own --------------------------------------------------------------


def layers_of_own_pipeline() -> tuple[list, float]:
    """Runs in each rank: the parameters of its layers, and the loss."""
    model, loss = own_pipeline.train_my_stage(
        dist.get_rank(), dist.get_world_size(), "cpu"
    )
    return list(model.state_dict().values()), loss


def test_the_script_of_your_own_trains_the_same_on_one_two_and_three_ranks():
    ((whole, loss),) = run_ranks(layers_of_own_pipeline, world_size=1)
    for ranks in 2, 3:
        parts = run_ranks(layers_of_own_pipeline, world_size=ranks)
        assert parts[-1][1] == pytest.approx(loss, abs=1e-5)
        assert all(len(parameters) for parameters, _ in parts)
        flat = [tensor for parameters, _ in parts for tensor in parameters]
        torch.testing.assert_close(flat, whole, atol=1e-5, rtol=0)
