"""The timeline of a simulated step: the spans that real ranks would have recorded."""

from collections.abc import Iterator

from parallel_by_hand.pipeline.schedules import read_instruction
from parallel_by_hand.scale.simulated_step import SimulatedStep
from parallel_by_hand.scale.stage_times import PassageThroughStage
from parallel_by_hand.scale.step_messages import data_messages
from sidebyside import Timeline
from sidebyside.timeline.spans import Span

KINDS_OF_SPANS = {"F": "forward", "B": "backward", "W": "weights"}


class SimulatedTimeline(Timeline):
    """A `Timeline` whose spans were computed: it draws, writes and saves them alike."""

    def __init__(self, spans: list[Span]):
        super().__init__()
        self._simulated = sorted(spans, key=lambda span: span.start)

    @property
    def spans(self) -> list[Span]:
        return self._simulated

    @property
    def lanes(self) -> list[str]:
        """A stage, then its link, then the next stage."""

        def order(lane: str) -> tuple[int, str]:
            _, stage, *link = lane.split()
            return int(stage), "".join(link)

        return sorted({span.lane for span in self.spans}, key=order)

    def plot(self, title: str = "", stamp: str = "simulated", **options):
        return super().plot(title, stamp, **options)


def timeline_of_step(step: SimulatedStep) -> SimulatedTimeline:
    """One replica: a lane for each rank of the pipeline, and one for its link."""
    spans = list(_spans_of_slots(step))
    done = dict.fromkeys(range(step.strategy.pipeline), 0.0)
    for slot in step.slots:
        done[slot.rank] = max(done[slot.rank], slot.end)
    for rank, ended in done.items():
        spans += _spans_of_end(step, rank, ended)
    return SimulatedTimeline(spans)


def _spans_of_slots(step: SimulatedStep) -> Iterator[Span]:
    for start, end, rank, instruction in step.slots:
        kind, stage, microbatch = read_instruction(instruction, rank)
        times = step.stages[stage]
        passage = times.forward if kind == "F" else times.backward
        name = f"{KINDS_OF_SPANS[kind]} {microbatch}"
        yield from _busy_then_wait(name, f"stage {rank}", start, end, passage)


def _busy_then_wait(
    name: str, lane: str, start: float, end: float, passage: PassageThroughStage
) -> Iterator[Span]:
    """The messages of a passage are drawn together, behind its computing."""
    share = passage.computing / passage.total if passage.total else 1.0
    computed = start + (end - start) * share
    yield Span(name, lane, start, computed, computed - start)
    if end > computed:
        yield Span("wait for messages", lane, computed, end, None)


def _spans_of_end(step: SimulatedStep, rank: int, ended: float) -> Iterator[Span]:
    lane, after = f"stage {rank}", step.ends[rank]
    sent = ended + after.messages
    updated = sent + after.update
    if after.messages:
        yield Span("wait for messages", lane, ended, sent, None)
    yield Span("update", lane, sent, updated, after.update)
    if after.after:
        yield Span("wait for messages", lane, updated, updated + after.after, None)
        yield Span("all-gather", f"{lane} link", updated, updated + after.after, None)
    yield from _spans_of_link(step, rank, ended)


def _spans_of_link(step: SimulatedStep, rank: int, ended: float) -> Iterator[Span]:
    """The gradients' messages; where they overlap, one for each layer that is ready."""
    strategy, lane = step.strategy, f"stage {rank} link"
    once = data_messages(step.model, step.cluster, strategy, rank).once.seconds
    if not once:
        return
    name = "reduce-scatter" if strategy.shard_stage else "all-reduce"
    if not strategy.overlap:
        yield Span(name, lane, ended, ended + once, None)
        return
    mine = step.stages[rank :: strategy.pipeline]
    layers = sum(stage.layers for stage in mine)
    last = sum(stage.backward.busy for stage in mine)
    free = 0.0
    for layer in range(1, layers + 1):
        begin = max(free, ended - last + layer * last / layers)
        free = begin + once / layers
        yield Span(f"{name} {layers - layer}", lane, begin, free, None)
