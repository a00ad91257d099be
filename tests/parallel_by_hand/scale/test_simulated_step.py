"""The parts of a step add up to it, drawn or counted."""

import json
from dataclasses import replace
from itertools import pairwise, product

import pytest

from parallel_by_hand.scale.calibration import link_of_rings
from parallel_by_hand.scale.known_gpus import A100, H100
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.simulated_timeline import timeline_of_step
from parallel_by_hand.scale.stage_times import side_by_side
from parallel_by_hand.scale.training_plan import Link, Model, Strategy, why_impossible
from sidebyside import Timeline
from tests.parallel_by_hand.scale.small_steps import NODE, SMALL, simulate


def test_the_link_is_10bs_line_and_no_noise_makes_it_negative():
    sizes = 40_000, 640_000, 2_560_000
    line = {size: [2 * 1e-4 + size / 1e9, 1.0] for size in sizes}
    assert link_of_rings(line) == pytest.approx((1e-4, 1e9))
    for seconds in ((3.0, 2.0, 1.0), (0.1, 0.1, 9.0), (1.0, 1.0, 1.0)):
        noisy = {s: [time] for s, time in zip(sizes, seconds, strict=True)}
        assert min(link_of_rings(noisy)) > 0


@pytest.mark.parametrize("units", [1, 2, 12])
def test_equal_units_overlap_as_if_walked_through_one_by_one(units):
    for computing, sending in product((0.0, 1.0, 3.0), (0.0, 0.5, 1.0, 7.0)):
        ready = free = 0.0
        for _ in range(units):
            ready += computing / units
            free = max(free, ready) + sending / units
        assert side_by_side(computing, sending, units) == pytest.approx(free)
    assert side_by_side(1, 1, 12) - 1 == pytest.approx(1 / 12), "one sticks out"


@pytest.mark.parametrize("stage", range(4))
def test_overlap_never_takes_longer_where_messages_cost_bytes_only(stage):
    at_once = replace(NODE, link_within=Link(0, 25e9))
    for pipeline in (1, 2):
        degrees = {"data": 4, "pipeline": pipeline, "shard_stage": stage}
        after, during = (
            simulate(cluster=at_once, overlap=overlap, **degrees) for overlap in (0, 1)
        )
        assert during.seconds <= after.seconds
        assert during.sent == after.sent


DEGREES = [
    dict(data=d, tensor=t, pipeline=p, shard_stage=z, recomputation=r, **more)
    for d, t, p in ((8, 1, 1), (1, 8, 1), (1, 1, 8), (2, 2, 2), (4, 2, 1))
    for z, r in ((0, "none"), (1, "selective"), (2, "full"), (3, "full"))
    for more in (
        {},
        {"overlap": True, "sequence_parallel": True},
        {"schedule": "zero-bubble"},
    )
]


@pytest.mark.parametrize(
    "degrees", DEGREES, ids=lambda d: "-".join(map(str, d.values()))
)
def test_the_parts_of_a_step_are_the_step(degrees):
    step = simulate(**degrees)
    assert sum(step.spent.values()) == pytest.approx(step.seconds)
    waiting = step.bubble * max(slot.end for slot in step.slots)
    assert 0 <= waiting <= step.idle * step.seconds * (1 + 1e-9) <= step.seconds
    assert 0 < step.model_utilisation <= step.hardware_utilisation < 1
    assert sum(step.sent_over.values()) == pytest.approx(sum(step.sent.values()))
    if degrees["recomputation"] == "none":
        assert step.model_utilisation == step.hardware_utilisation


@pytest.mark.parametrize(
    "degrees", DEGREES[::5], ids=lambda d: "-".join(map(str, d.values()))
)
def test_the_timeline_ends_with_the_step_and_is_idle_as_long(degrees, tmp_path):
    step = simulate(**degrees)
    timeline = timeline_of_step(step)
    assert isinstance(timeline, Timeline)
    assert max(span.end for span in timeline.spans) == pytest.approx(step.seconds)
    computed = sum(
        span.duration
        for span in timeline.spans
        if "link" not in span.lane and not span.name.startswith("wait")
    )
    for lane in timeline.lanes:
        mine = [span for span in timeline.spans if span.lane == lane]
        assert all(one.end <= after.start + 1e-12 for one, after in pairwise(mine))
    ranks = step.strategy.pipeline
    assert 1 - computed / (ranks * step.seconds) == pytest.approx(step.idle, abs=1e-6)
    with open(timeline.save(tmp_path / "step.json"), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(timeline.spans)
    assert step.slots[-1].end <= step.seconds


def test_cost_and_energy_are_those_of_all_gpus():
    step = simulate(data=8)
    assert step.cost == pytest.approx(8 * A100.price * step.seconds / 3600)
    assert step.energy == pytest.approx(8 * A100.watts * step.seconds)
    assert H100.peak_flops > A100.peak_flops


IMPOSSIBLE = [
    ({"data": 3}, "3 x 1 x 1 = 3, and there are 8 GPUs"),
    ({"data": 8, "micro_batch": 3}, "a batch of 16 cannot be cut"),
    ({"tensor": 8, "model": Model(8, 512, 4, 256, 0)}, "4 heads cannot be split"),
    ({"pipeline": 8, "schedule": "interleaved"}, "16 stages are more than"),
    (
        {"pipeline": 4, "data": 2, "schedule": "interleaved", "batch": 18},
        "9 micro-batches in groups of at least 4: it needs a multiple of 2",
    ),
    ({"data": 8, "expert": 2}, "1 experts and 8 data-parallel ranks cannot be shared"),
    ({"data": 8, "shard_stage": 4}, "shard_stage must be 0, 1, 2 or 3"),
    ({"data": 8, "model": Model(8, 500, 8, 256, 0)}, "500 hidden numbers cannot be"),
]


@pytest.mark.parametrize("degrees,words", IMPOSSIBLE, ids=lambda x: str(x)[:30])
def test_what_cannot_be_is_said_in_a_sentence(degrees, words):
    degrees = dict(degrees)
    model, batch = degrees.pop("model", SMALL), degrees.pop("batch", 16)
    strategy = Strategy(**degrees)
    assert words in why_impossible(model, NODE, strategy, batch)
    with pytest.raises(ValueError, match=words.split(",")[0].replace("(", r"\(")):
        simulate_step(model, NODE, strategy, batch)
