"""Each sick program has in its trace what its name says, on any machine."""

import pytest

from parallel_by_hand.ddp.sick_traces import LATE, PATIENTS, trace_patients
from parallel_by_hand.ddp.step_traces import TraceEvent, events_of_ranks
from sidebyside import run_ranks

Events = list[TraceEvent]
SLEPT = 1e3 * LATE


@pytest.fixture(scope="module")
def traces() -> dict[str, list[Events]]:
    """The events of both ranks, by illness."""
    ranks = run_ranks(trace_patients)
    return {
        illness: events_of_ranks([rank[letter] for rank in ranks])
        for letter, illness in PATIENTS.items()
    }


def of(events: Events, what: str) -> Events:
    """The events of this kind or name in the profiler's own trace, in order."""
    events = [event for event in events if event.kind != "span"]
    found = [event for event in events if what in (event.kind, event.name)]
    return sorted(found, key=lambda event: event.start)


def before_computing(events: Events) -> list[float]:
    """How long each forward lasts before its first operation."""
    starts = [event.start for event in of(events, "compute")]
    return [
        min(s for s in starts if s >= span.start) - span.start
        for span in of(events, "forward")
    ]


def between_steps(events: Events) -> float:
    """From the end of the first update to the second forward."""
    return of(events, "forward")[1].start - of(events, "update")[0].end


def sent_before_the_last_gradient(events: Events) -> int:
    """Messages of the first step that set out before its last matrix product ended."""
    [backward, _] = of(events, "backward")
    products = [e for e in of(events, "aten::mm") if e.start < backward.end]
    return sum(e.start < products[-1].end for e in of(events, "call"))


def test_the_straggler_comes_late_to_each_step(traces):
    on_time, late = traces["straggler"]
    assert min(before_computing(late)) >= SLEPT
    assert len(of(on_time, "message")) == len(of(late, "message")) == 12


def test_a_starving_loader_keeps_both_ranks_waiting_between_steps(traces):
    assert all(between_steps(e) >= SLEPT for e in traces["starving loader"])
    assert all(len(of(e, "message")) == 12 for e in traces["starving loader"])


def test_one_bucket_leaves_when_all_gradients_are_ready(traces):
    for events in traces["one bucket"]:
        assert len(of(events, "message")) == 2
        assert sent_before_the_last_gradient(events) == 0


def test_a_program_that_waits_for_each_message_has_sent_it_before_the_next(traces):
    for events in traces["waits for each message"]:
        assert len(of(events, "message")) == 12
        assert sent_before_the_last_gradient(events) == 5
        calls, products = of(events, "call"), of(events, "aten::mm")
        for message, after in zip(of(events, "message"), calls[1:], strict=False):
            inside = [
                e for e in products if message.start < e.start and e.end < message.end
            ]
            assert not inside, "nothing is computed while a message travels"
            assert message.start < after.start
