"""The bubble of a simulated step is that of its timetable."""

from itertools import product

import pytest

from parallel_by_hand.pipeline.schedule_rules import timetable
from parallel_by_hand.pipeline.schedules import SCHEDULES_BY_NAME
from parallel_by_hand.scale import pipeline_times
from parallel_by_hand.scale.kept_timetable import kept_timetable, scheduled
from parallel_by_hand.scale.training_plan import Model
from tests.parallel_by_hand.scale.small_steps import FREE, simulate


@pytest.mark.parametrize("ranks,batch", [(2, 4), (4, 8), (8, 64)])
def test_equal_stages_have_the_textbooks_bubble(ranks, batch):
    layers = Model(8, 512, 8, 256, vocabulary=0)
    for name, again in product(("gpipe", "1f1b"), ("none", "full")):
        degrees = {"pipeline": ranks, "schedule": name, "recomputation": again}
        step = simulate(batch, FREE, layers, **degrees)
        assert step.bubble == pytest.approx((ranks - 1) / (batch + ranks - 1))


@pytest.mark.parametrize("name", SCHEDULES_BY_NAME)
@pytest.mark.parametrize("ends", [(1, 1), (1.1, 1.4)])
def test_a_long_step_is_continued_as_the_whole_timetable_goes_on(name, ends):
    for ranks, more in product((2, 3, 5), (0, 1)):
        count = ranks * (2 * pipeline_times.LONG + 1)
        count += more * (ranks if name == "interleaved" else 1)
        stages = ranks * (2 if name == "interleaved" else 1)
        forward = [1.0] * stages
        forward[0], forward[-1] = ends
        backward = tuple(2 * time for time in forward)
        plan = pipeline_times.PlanOfPipeline(
            name, ranks, count, 2, tuple(forward), backward
        )
        found = pipeline_times.run_pipeline_on_paper(plan)
        whole = pipeline_times._run_all_of_it(plan)
        assert found.ends == pytest.approx(whole.ends) and found.kept == whole.kept


def seconds_of(name: str, travel: float, sending: float) -> float:
    """Of 32 micro-batches on four ranks, forward 1 s, backward 2 s."""
    plan = pipeline_times.PlanOfPipeline(
        name, 4, 32, 1, (1.0,) * 4, (2.0,) * 4, travel, sending
    )
    return max(pipeline_times.run_pipeline_on_paper(plan).ends)


@pytest.mark.parametrize("travel", [0, 0.5, 2, 6, 20])
def test_messages_that_travel_while_ranks_go_on_cost_1f1b_more_than_gpipe(travel):
    # there and back over three links: GPipe waits once, 1F1B again and again
    assert seconds_of("gpipe", travel, 0) == pytest.approx(105 + 6 * travel)
    assert seconds_of("1f1b", travel, 0) == pytest.approx(105 + 52 * travel)


def test_a_link_carries_one_message_at_a_time():
    # 32 messages leave a rank; the last goes on through two more, and is worked on
    forth = 1 + 32 * 6 + 2 * (1 + 6) + 1
    assert seconds_of("gpipe", 6, 6) == pytest.approx(forth + forth + 4)


@pytest.mark.parametrize(
    ("name", "ranks", "micro_batches", "chunks"),
    [
        ("1f1b", 1, 3, 1), ("1f1b", 4, 9, 1), ("gpipe", 3, 5, 1), ("naive", 2, 3, 1),
        ("interleaved", 4, 8, 2), ("interleaved", 3, 9, 3), ("zero-bubble", 4, 6, 1),
    ],
)  # fmt: skip
def test_a_kept_timetable_is_lesson_15s(name, ranks, micro_batches, chunks):
    stages = ranks * (chunks if name == "interleaved" else 1)
    forward = [1 + 0.1 * stage for stage in range(stages)]
    backward = [2 + 0.3 * (stage % 3) for stage in range(stages)]
    schedule = scheduled(name, ranks, micro_batches, chunks)
    slots = timetable(schedule, forward, backward, backward)
    kept = kept_timetable(name, ranks, micro_batches, chunks)
    starts, ends = kept.run([*forward, *backward, *backward], 0, 0)
    assert sorted(starts) == pytest.approx([slot.start for slot in slots])
    for rank, end in enumerate(ends):
        assert end == pytest.approx(max(s.end for s in slots if s.rank == rank))
