"""Draw timelines, as a picture and in letters."""

import re
from collections.abc import Mapping

from sidebyside.figures import COLOURS, GREY, Figure, figure

IDLE = "#EEEEEE"


def _kind(name: str) -> str:
    """Spans that differ only in a number are of one kind: "forward 3" -> "forward"."""
    return re.sub(r"[\s_#-]*\d+\s*$", "", name).strip() or name


def _kinds(spans) -> list[str]:
    in_time = sorted(spans, key=lambda s: s.start)
    return list(dict.fromkeys(_kind(s.name) for s in in_time))


def _rows(spans) -> list[tuple[object, int]]:
    """Each span with the first row where it overlaps none: nested work goes below."""
    ends: list[float] = []
    placed = []
    for s in sorted(spans, key=lambda s: (s.start, -s.end)):
        row = next((r for r, end in enumerate(ends) if end <= s.start), len(ends))
        ends[row : row + 1] = [s.end]
        placed.append((s, row))
    return placed


def _busy(spans) -> float:
    """Seconds in which at least one of `spans` was open."""
    total, reached = 0.0, float("-inf")
    for s in sorted(spans, key=lambda s: s.start):
        total += max(0.0, s.end - max(s.start, reached))
        reached = max(reached, s.end)
    return total


def _extent(timeline) -> tuple[float, float]:
    """First start and last end of a timeline's spans."""
    spans = timeline.spans
    start = min((s.start for s in spans), default=0.0)
    return start, max((s.end for s in spans), default=0.0)


def _scale(seconds: float) -> tuple[float, str]:
    return (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")


def draw_timelines(
    timelines: Mapping[str, object],
    stamp: str = "measured here",
    width: float = 8,
    height: float | None = None,
) -> Figure:
    """Timelines one below the other on one time axis; each begins at its first span.

    Coloured bars are work, named by their span; grey is a worker that waits; the
    share of idle time stands at the right.
    """
    lanes = [(title, t, lane) for title, t in timelines.items() for lane in t.lanes]
    if not lanes:
        raise ValueError("there is nothing to draw: no span was recorded")
    length = max(end - start for start, end in map(_extent, timelines.values()))
    factor, unit = _scale(length)
    kinds = dict.fromkeys(kind for t in timelines.values() for kind in _kinds(t.spans))
    colour = {kind: COLOURS[i % len(COLOURS)] for i, kind in enumerate(kinds)}
    titles = [title for title in timelines if title]
    tall = 0.34 * len(lanes) + 0.3 * len(titles) + 0.75
    fig, ax = figure(width=width, height=height or max(tall, 1.3), stamp=stamp)
    fig.alt = f"timeline of {', '.join(lane for _, _, lane in lanes)}, {stamp}"

    y, ticks, seen = 0.0, [], None
    for title, timeline, lane in lanes:
        if title and title != seen:
            ax.text(0, y + 0.45, title, fontsize=8.5, fontweight="bold", va="bottom")
            y -= 0.15
        seen = title
        start, end = _extent(timeline)
        spans = [s for s in timeline.spans if s.lane == lane]
        ax.barh(y, (end - start) * factor, height=0.8, color=IDLE, zorder=1)
        placed = _rows(spans)
        rows = 1 + max(row for _, row in placed)
        for s, row in placed:
            left, wide = (s.start - start) * factor, s.duration * factor
            middle = y + 0.4 - 0.8 * (row + 0.5) / rows
            ax.barh(
                middle, wide, 0.8 / rows, left, color=colour[_kind(s.name)],
                edgecolor="white", linewidth=0.6, zorder=2 + row,
            )  # fmt: skip
            if wide > 0.0115 * len(s.name) * length * factor * 8 / width and rows < 4:
                ax.text(
                    left + wide / 2, middle, s.name, color="white", zorder=9,
                    fontsize=7.5 if rows == 1 else 6, ha="center", va="center",
                )  # fmt: skip
        idle = 1 - _busy(spans) / (end - start) if end > start else 0.0
        ax.text(
            length * factor * 1.01, y, f"idle {100 * idle:.0f} %", fontsize=7,
            color=GREY, va="center",
        )  # fmt: skip
        ticks.append((y, lane))
        y -= 1.0 if lane != timeline.lanes[-1] else 1.55 if titles else 1.0

    ax.set_yticks(*zip(*ticks, strict=True), fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlim(0, length * factor * 1.1)
    ax.set_xlabel(f"time ({unit})", fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    if len(colour) > 1:
        for place, (kind, shade) in enumerate(colour.items()):
            ax.annotate(
                f"■ {kind}", (place / max(len(colour), 5), 1), (0, 14 if titles else 2),
                xycoords="axes fraction", textcoords="offset points", color=shade,
                fontsize=8,
            )  # fmt: skip
    return fig


def write_timeline(timeline, width: int = 60) -> str:
    """One line of `width` letters per lane; `.` is a worker that waits, and a capital
    is where a span begins."""
    spans = timeline.spans
    if not spans:
        return "(no span was recorded)"
    letters: dict[str, str] = {}
    for kind in _kinds(spans):
        free = [c for c in kind + "abcdefghijklmnopqrstuvwxyz" if c.isalpha()]
        letters[kind] = next((c for c in free if c not in letters.values()), "#")
    start, end = _extent(timeline)
    column = (end - start) / width or 1.0
    wide = max(map(len, timeline.lanes))
    lines = []
    for lane in timeline.lanes:
        mine = [s for s in spans if s.lane == lane]
        text = ["."] * width
        place = [min(int((s.start - start) / column), width - 1) for s in mine]
        drawn = sorted(
            zip(mine, place, strict=True), key=lambda pair: -pair[0].duration
        )
        for s, first in drawn:  # the longest first: nested work stays visible
            last = max(first + 1, min(width, int((s.end - start) / column)))
            text[first:last] = letters[_kind(s.name)] * (last - first)
        for s, first in drawn:  # a capital shows where a span begins
            text[first] = letters[_kind(s.name)].upper()
        idle = 1 - _busy(mine) / (end - start) if end > start else 0.0
        lines.append(f"{lane:<{wide}} |{''.join(text)}| idle {100 * idle:.0f} %")
    factor, unit = _scale(end - start)
    key = ", ".join(f"{letter.upper()} = {kind}" for kind, letter in letters.items())
    lines.append(f"{'':<{wide}} 0{(end - start) * factor:>{width}.3g} {unit}   {key}")
    return "\n".join(lines)
