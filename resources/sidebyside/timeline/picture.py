"""Timelines as lanes of bars: spans of one kind have one colour and one letter."""

import re
from collections.abc import Mapping
from itertools import accumulate
from textwrap import wrap
from typing import Any

from sidebyside.timeline.lanes import (
    WAIT,
    Bar,
    Lanes,
    extent_of_lanes,
    shares_of_lane,
    write_lane,
)


def draw_timelines(
    timelines: Mapping[str, Any],
    stamp: str = "measured here",
    width: float = 8,
    height: float | None = None,
    cpu: bool = False,
):
    """Timelines one below the other on one time axis; each begins at its first span.

    Coloured bars are work, named by their span. A span called "wait", or "wait for"
    something, is pale; grey is idle. The share of idle time, at the right, is that of
    both, since waiting is not work. With `cpu` a bar is filled from below, as high as
    the share of its time that its thread was on a core.
    """
    from sidebyside.timeline.lanes_picture import (
        draw_lanes,  # slow, and letters need none
    )

    panels = {
        title: _lanes_of_spans(t, _working_part_of_span, cpu)
        for title, t in timelines.items()
        if t.spans
    }
    if not panels:
        raise ValueError("there is nothing to draw: no span was recorded")
    factor, unit = _scale_of_timeline(
        max(end - start for start, end in map(extent_of_lanes, panels.values()))
    )
    panels = {title: _scaled_timeline(lanes, factor) for title, lanes in panels.items()}
    fig = draw_lanes(panels, unit, stamp, width, height)
    names = [name for lanes in panels.values() for name in lanes]
    texts = [f"{title}\n{write_timeline(t, cpu=cpu)}" for title, t in timelines.items()]
    fig.alt = "\n".join([f"timeline of {', '.join(names)}, {stamp}", *texts])
    return fig


def write_timeline(timeline, width: int = 60, cpu: bool = False) -> str:
    """One line of `width` letters per lane, and what the letters mean.

    A capital is where a span begins, `.` is idle. Waiting has a letter, like all spans,
    and counts as idle. With `cpu` the share of time on a core stands at the right, too.
    """
    if not timeline.spans:
        return "(no span was recorded)"
    lanes = _lanes_of_spans(timeline, _whole_span, cpu)
    letters = _letters_of_spans(lanes)
    start, end = extent_of_lanes(lanes)
    wide = max(map(len, lanes))
    lines = []
    for name, bars in lanes.items():
        text = write_lane(
            bars, start, (end - start) / width or 1.0, width,
            lambda bar: (letters[bar.kind].upper(), letters[bar.kind]),
        )  # fmt: skip
        lines.append(f"{name:<{wide}} |{text}| {shares_of_lane(bars, end - start)}")
    factor, unit = _scale_of_timeline(end - start)
    key = ", ".join(f"{letter.upper()} = {kind}" for kind, letter in letters.items())
    key += " (counts as idle)" if WAIT in letters else ""
    lines.append(f"{'':<{wide}} 0{(end - start) * factor:>{width}.3g} {unit}")
    return "\n".join([*lines, *wrap(key, max(76, wide + width))])


def _kind_of_span(name: str) -> str:
    """Spans that differ only in a number are of one kind: "forward 3" -> "forward".

    Whatever is waited for, waiting is of one kind.
    """
    if re.match(r"wait\b", name):
        return WAIT
    return re.sub(r"[\s_#-]*\d+\s*$", "", name).strip() or name


def _lanes_of_spans(timeline, parts, cpu: bool) -> Lanes:
    """The spans as bars; `parts` says of which pieces of a span to make one."""
    lanes: Lanes = {name: [] for name in timeline.lanes}
    spans = timeline.spans
    waits = [span for span in spans if _kind_of_span(span.name) == WAIT]
    for span in spans:
        pieces = parts(span, waits)
        share = _cpu_share_of_span(span, pieces) if cpu else None
        for start, end in pieces:
            kind, number = _kind_of_span(span.name), re.findall(r"\d+$", span.name)
            labels = span.name, *(number or [kind])  # the number fits oftener
            lanes[span.lane].append(Bar(start, end, kind, labels, cpu=share))
    return lanes


def _cpu_share_of_span(span, pieces: list[tuple[float, float]]) -> float | None:
    """The share of the pieces' time on a core; None if unknown. A wait has none."""
    worked = sum(end - start for start, end in pieces)
    if span.cpu is None or worked <= 0 or _kind_of_span(span.name) == WAIT:
        return None
    return min(1.0, max(0.0, span.cpu / worked))  # two clocks may differ a little


def _whole_span(span, waits: list) -> list[tuple[float, float]]:
    return [(span.start, span.end)]


def _working_part_of_span(span, waits: list) -> list[tuple[float, float]]:
    """The pieces of `span` between waits, so that no bar of work contains waiting.

    Work that changes threads, and has no CPU time of one, goes on while others wait.
    """
    inside = [
        wait
        for wait in waits
        if wait.lane == span.lane and span.start <= wait.start and wait.end <= span.end
    ]
    if not inside or span.cpu is None or _kind_of_span(span.name) == WAIT:
        return _whole_span(span, waits)
    ends = accumulate((wait.end for wait in inside), max, initial=span.start)
    starts = [*(wait.start for wait in inside), span.end]
    pieces = zip(ends, starts, strict=True)
    return [(start, end) for start, end in pieces if start < end]


def _letters_of_spans(lanes: Lanes) -> dict[str, str]:
    """A letter for each kind, its own first one if it is free; waits come last."""
    kinds = list(dict.fromkeys(bar.kind for bars in lanes.values() for bar in bars))
    letters = {WAIT: "w"} if WAIT in kinds else {}
    for kind in kinds:
        free = [c for c in kind + "abcdefghijklmnopqrstuvwxyz" if c.isalpha()]
        free = (c for c in free if c not in letters.values())
        letters.setdefault(kind, next(free, "#"))
    return letters | {WAIT: letters.pop(WAIT)} if WAIT in letters else letters


def _scaled_timeline(lanes: Lanes, factor: float) -> Lanes:
    return {
        name: [
            bar._replace(start=bar.start * factor, end=bar.end * factor) for bar in bars
        ]
        for name, bars in lanes.items()
    }


def _scale_of_timeline(seconds: float) -> tuple[float, str]:
    return (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
