"""A trace says what computes and what travels, on one clock."""

import pytest

from parallel_by_hand.ddp.sick_traces import trace_of_program
from parallel_by_hand.ddp.step_traces import (
    TraceEvent,
    events_of_ranks,
    joined,
    timeline_of_traces,
)
from sidebyside import run_ranks


def raw(category: str, name: str, start: float, length: float, thread: int = 1) -> dict:
    """An event as the profiler writes it, in microseconds."""
    times = {"ts": start, "dur": length}
    return {"ph": "X", "cat": category, "name": name, "tid": thread} | times


PHASE = raw("user_annotation", "backward", 1000, 900)
CALL = raw("cpu_op", "c10d::allreduce_", 1200, 10)
PRODUCT = raw("cpu_op", "aten::mm", 1000, 200)


def kinds_of_trace(*events: dict) -> dict[str, str]:
    [found] = events_of_ranks([{"traceEvents": [{"ph": "M"}, *events]}])
    return {event.name: event.kind for event in found}


def test_on_the_cpu_operations_compute_and_gloos_work_is_the_message():
    gloo = raw("user_annotation", "gloo:all_reduce", 1205, 300, 2)
    autograd = raw("cpu_op", "AddmmBackward0", 1000, 200)
    assert kinds_of_trace(PHASE, CALL, PRODUCT, gloo, autograd) == {
        "backward": "record_function",
        "c10d::allreduce_": "call",
        "aten::mm": "compute",
        "gloo:all_reduce": "message",
    }


def test_on_a_gpu_kernels_compute_and_those_of_nccl_are_messages():
    kernel = raw("kernel", "sgemm_128x64", 1300, 50, 7)
    nccl = raw("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1300, 90, 20)
    found = kinds_of_trace(PHASE, CALL, PRODUCT, kernel, nccl)
    assert found == {
        "c10d::allreduce_": "call",
        kernel["name"]: "compute",
        nccl["name"]: "message",
    }
    drawn = timeline_of_traces(events_of_ranks([{"traceEvents": [kernel, nccl]}]))
    assert [(s.lane, s.name) for s in drawn.spans] == [
        ("rank 0", "compute"), ("rank 0 sends", "message"),
    ]  # fmt: skip


def test_ranks_whose_clocks_begin_elsewhere_are_on_one_clock():
    early = {"traceEvents": [PRODUCT], "baseTimeNanoseconds": 5_000_000_000}
    late = {"traceEvents": [PRODUCT], "baseTimeNanoseconds": 5_003_000_000}
    [[first], [second]] = events_of_ranks([early, late])
    assert (first.start, first.end) == pytest.approx((0, 0.2))
    assert (second.start, second.end) == pytest.approx((3, 3.2))


def test_joined_intervals_do_not_touch():
    assert joined([(5, 6), (0, 2), (1, 1.5), (2, 3)]) == [(0, 3), (5, 6)]
    assert joined([(5, 6), (0, 2)], gap=3) == [(0, 6)]


@pytest.fixture(scope="module")
def well() -> list[list[TraceEvent]]:
    return events_of_ranks(run_ranks(trace_of_program))


def test_our_spans_and_those_of_record_function_are_the_same_on_one_clock(well):
    for events in well:
        ours, recorded = (
            sorted((e for e in events if e.kind == kind), key=lambda e: e.start)
            for kind in ("span", "record_function")
        )
        assert [e.name for e in ours] == 2 * ["forward", "backward", "update"]
        for mine, other in zip(ours, recorded, strict=True):
            assert mine.name == other.name
            assert mine.start < other.end and other.start < mine.end
        sent = [e.start for e in events if e.kind == "message"]
        backwards = [e for e in ours if e.name == "backward"]
        inside = [sum(b.start < time < b.end for time in sent) for b in backwards]
        assert inside == [6, 6]


def test_our_spans_have_a_lane_above_their_rank(well):
    lanes = "rank 0 spans", "rank 0", "rank 0 sends"
    lanes += "rank 1 spans", "rank 1", "rank 1 sends"
    assert timeline_of_traces(well, spans=True).lanes == [*lanes]
    assert timeline_of_traces(well).lanes == [x for x in lanes if "spans" not in x]


def test_the_call_that_starts_a_message_is_not_the_message(well):
    for events in well:
        threads = {
            kind: {e.thread for e in events if e.kind == kind}
            for kind in ("compute", "call", "message")
        }
        assert threads["call"] == threads["compute"] and len(threads["call"]) == 1
        assert not threads["message"] & threads["compute"]
        calls = sorted(e.start for e in events if e.kind == "call")
        messages = sorted(e.start for e in events if e.kind == "message")
        assert len(calls) == len(messages) == 12
        assert all(a <= b for a, b in zip(calls, messages, strict=True))
