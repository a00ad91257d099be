"""A step's time is predicted from its parts, and each way counts its samples."""

import pytest

from parallel_by_hand.ddp import step_speed
from parallel_by_hand.ddp.ddp_from_scratch import fill_buckets
from sidebyside import run_ranks


@pytest.mark.parametrize("network", step_speed.NETWORKS)
@pytest.mark.parametrize("limit", [1, 100_000, 2**20, 2**30])
def test_buckets_of_the_prediction_are_those_of_the_class(network, limit):
    make, _ = step_speed.NETWORKS[network]
    parameters = list(make().parameters())
    sizes = [p.nbytes for p in reversed(parameters)]
    moments = [float(moment) for moment, _ in enumerate(sizes)]
    step = step_speed.StepParts(1.0, moments, sizes, 1.0).in_buckets(limit)
    filled = fill_buckets(parameters, limit)
    assert step.sizes == [sum(p.nbytes for p in bucket) for bucket in filled]
    last = -1
    for ready, bucket in zip(step.ready, filled, strict=True):
        last += len(bucket)
        assert ready == last, "a bucket is ready with its last gradient"


def test_a_step_is_its_parts_and_what_is_left_of_the_messages():
    step = step_speed.StepParts(40, [30, 60, 90, 120], [8] * 4, 5)
    assert step.predict(alpha=30, beta=0) == (40 + 120 + 5 + 120, 40 + 120 + 5 + 30)
    assert step.predict(alpha=4, beta=1) == (40 + 120 + 5 + 48, 40 + 120 + 5 + 12)


def test_parts_are_measured_without_messages():
    for parts in run_ranks(step_speed.measure_parts, "deep", 2):
        parameters = list(step_speed.make_deep().parameters())
        assert parts.sizes == [p.nbytes for p in reversed(parameters)]
        assert parts.ready[0] > 0 and parts.ready == sorted(parts.ready)
        assert parts.forward > 0 and parts.update > 0


def test_each_way_has_a_speed_in_every_round():
    speeds = run_ranks(step_speed.samples_per_second, "convolutions", 2)[0]
    assert list(speeds) == list(step_speed.WAYS)
    for rounds in speeds.values():
        assert len(rounds) == 2 and min(rounds) > 0


def test_every_size_and_every_limit_is_timed_in_every_round():
    sizes, limits = [4096, 16384], [1, 2**30]
    for timed in run_ranks(step_speed.time_all_reduces, sizes, 3):
        assert [(size, len(t)) for size, t in timed.items()] == [(4096, 3), (16384, 3)]
    for timed in run_ranks(step_speed.time_buckets, "convolutions", limits, 2):
        assert [(limit, len(t)) for limit, t in timed.items()] == [(1, 2), (2**30, 2)]
