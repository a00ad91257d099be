"""A step's trace by torch's profiler: what computes, what travels, what is exposed."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time_ns
from typing import NamedTuple

import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from sidebyside import Timeline, device
from sidebyside.timeline.spans import Span

PHASES = ("forward", "backward", "update")
BLINK = 0.1  # ms: a shorter gap between two operations is not drawn


class TraceEvent(NamedTuple):
    """Something in a trace, in milliseconds.

    Its `kind` is "compute", "message", "call" (that starts a message), "span" (ours),
    or "record_function" (the profiler's).
    """

    kind: str
    name: str
    thread: int | str
    start: float
    end: float


def profile_step(step: Callable) -> dict:
    """Runs in each rank: the trace of the last of four calls of `step`, and its spans.

    It is Chrome's trace format: a file with it opens in https://ui.perfetto.dev.
    """
    os.environ["KINETO_LOG_LEVEL"] = "99"  # else it reports its start on each rank
    for _ in range(3):
        step()
    activities = [ProfilerActivity.CPU]
    if device().type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    dist.barrier()
    with profile(activities=activities) as profiler, Timeline() as timeline:
        began = time_ns()  # a trace's clock; a timeline counts from its beginning
        step()
    with TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        trace = json.loads(file.read_text("utf-8"))
    zero = (began - trace["baseTimeNanoseconds"]) / 1e3
    ours = {"ph": "X", "cat": "span", "pid": os.getpid(), "tid": "our spans"}
    trace["traceEvents"] += [
        ours | {"name": s.name, "ts": zero + 1e6 * s.start, "dur": 1e6 * s.duration}
        for s in timeline.spans
    ]
    return trace


def events_of_ranks(traces: list[dict]) -> list[list[TraceEvent]]:
    """For each rank's trace what was computed or sent; the first event begins at 0.

    On the CPU the operations `aten::...` compute, and `gloo:...` is a message, from the
    moment when one of gloo's threads is free for it. With a GPU its kernels compute,
    and those of NCCL are messages; `record_function` is left out, for it names what the
    CPU did meanwhile. `c10d::allreduce_` is only the call that starts a message.
    """
    ranks = [list(_events_of_trace(trace)) for trace in traces]
    zero = min(event.start for events in ranks for event in events)
    return [
        [e._replace(start=e.start - zero, end=e.end - zero) for e in events]
        for events in ranks
    ]


def _events_of_trace(trace: dict) -> Iterator[TraceEvent]:
    zero = trace.get("baseTimeNanoseconds", 0) / 1e6
    raw = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    on_gpu = any(event["cat"] == "kernel" for event in raw)
    for event in raw:
        if kind := _kind_of_event(event["cat"], event["name"], on_gpu):
            start = zero + event["ts"] / 1e3
            end = start + event["dur"] / 1e3
            yield TraceEvent(kind, event["name"], event["tid"], start, end)


def _kind_of_event(category: str, name: str, on_gpu: bool) -> str | None:
    if category == "span":
        return "span"
    if name.startswith("c10d::"):
        return "call"
    if category == "kernel":
        return "message" if name.startswith("nccl") else "compute"
    if on_gpu:
        return None
    if category == "user_annotation" and name in PHASES:
        return "record_function"
    if name.startswith("gloo:"):
        return "message"
    return "compute" if name.startswith("aten::") else None


def joined(
    intervals: Iterable[tuple[float, float]], gap: float = 0
) -> list[tuple[float, float]]:
    """The same time in intervals that lie more than `gap` apart, in order."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1] + gap:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def exposed(events: list[TraceEvent]) -> float:
    """Milliseconds in which a message of this rank travels and nothing is computed."""
    times = {
        kind: joined((e.start, e.end) for e in events if e.kind == kind)
        for kind in ("message", "compute")
    }
    hidden = sum(
        max(0.0, min(end, other_end) - max(start, other_start))
        for start, end in times["message"]
        for other_start, other_end in times["compute"]
    )
    return sum(end - start for start, end in times["message"]) - hidden


class TraceTimeline(NamedTuple):
    """Traces of all ranks, to be drawn as a `Timeline` is."""

    spans: list[Span]

    @property
    def lanes(self) -> list[str]:
        return list(dict.fromkeys(span.lane for span in self.spans))


def timeline_of_traces(
    ranks: list[list[TraceEvent]], spans: bool = False
) -> TraceTimeline:
    """A lane for what each rank computes, by phase, and one for its messages.

    With `spans` our own spans have a lane above them.
    """
    return TraceTimeline(
        [
            Span(name, lane, start / 1e3, end / 1e3, None)
            for rank, events in enumerate(ranks)
            for lane, name, intervals in _lanes_of_rank(f"rank {rank}", events, spans)
            for start, end in intervals
        ]
    )


def _lanes_of_rank(rank: str, events: list[TraceEvent], spans: bool) -> Iterator[tuple]:
    """Lane, name and intervals: of spans, what is computed in each, and messages."""
    for event in events:
        if spans and event.kind == "span":
            yield f"{rank} spans", event.name, [(event.start, event.end)]
    work = [(e.start, e.end) for e in events if e.kind == "compute"]
    phases = [event for event in events if event.kind == "record_function"]
    for phase in phases:
        inside = [(a, b) for a, b in work if phase.start <= a and b <= phase.end]
        yield rank, phase.name, joined(inside, BLINK)
    if not phases:  # on a GPU
        yield rank, "compute", joined(work, BLINK)
    messages = sorted((e.start, e.end) for e in events if e.kind == "message")
    yield f"{rank} sends", "message", messages
