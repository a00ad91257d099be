"""Lanes of bars as a picture, with one look for timelines and schedules."""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from sidebyside.timeline import figures
from sidebyside.timeline.figures import GREY, Figure
from sidebyside.timeline.lanes import WAIT, Bar, Lanes, extent_of_lanes, shares_of_lane

TITLE, GAP, SPACE = 0.7, 0.35, 0.18  # heights, in lanes; SPACE is between lanes


class _LanesPage(NamedTuple):
    """What the parts of one picture share."""

    ax: Axes
    colours: dict[str, str]
    length: float  # of the time axis
    letter: float  # the width of one, in units of time
    filled: bool  # as high as the share of CPU time


def draw_lanes(
    panels: Mapping[str, Lanes],
    unit: str,
    stamp: str = "measured here",
    width: float = 8,
    height: float | None = None,
) -> Figure:
    """Panels of lanes, by title, one below the other on one time axis."""
    panels = {title: _lanes_from_zero(lanes) for title, lanes in panels.items()}
    length = max(extent_of_lanes(lanes)[1] for lanes in panels.values()) or 1.0
    bars = [b for lanes in panels.values() for lane in lanes.values() for b in lane]
    colours = figures.colours_of(bar.kind for bar in bars if bar.kind != WAIT)
    filled = any(bar.cpu is not None for bar in bars)
    shown = _key_to_bars(bars, colours, filled)
    tall = sum(_height_of_panel_of_lanes(*panel) for panel in panels.items()) - GAP
    room = 0.3 * tall + (0.9 if len(shown) > 1 else 0.65)
    fig, ax = figures.figure(width=width, height=height or max(room, 1.3), stamp=stamp)
    letter = 0.0113 * length * 8 / width
    page = _LanesPage(ax, colours, length, letter, filled)
    ticks, top = [], 0.0
    for title, lanes in panels.items():
        ticks += _draw_panel_of_lanes(page, title, lanes, top)
        top -= _height_of_panel_of_lanes(title, lanes)
    _draw_axes_of_lanes(page, ticks, tall, unit)
    if len(shown) > 1:
        fig.legend(
            handles=shown, loc="outside upper left", ncols=len(shown), fontsize=8,
            frameon=False, borderpad=0, handlelength=1, columnspacing=1.5,
            borderaxespad=1,
        )  # fmt: skip
    return fig


def _lanes_from_zero(lanes: Lanes) -> Lanes:
    """The same on a clock that starts with the first bar."""
    zero, _ = extent_of_lanes(lanes)
    return {
        name: [bar._replace(start=bar.start - zero, end=bar.end - zero) for bar in lane]
        for name, lane in lanes.items()
    }


def _height_of_panel_of_lanes(title: str, lanes: Lanes) -> float:
    return (TITLE if title else 0) + sum(map(_height_of_lane, lanes.values())) + GAP


def _height_of_lane(bars: list[Bar]) -> float:
    """1, or more where rows of overlapping bars need it for their letters."""
    return max(1, SPACE + 0.55 * _rows_in_lane(bars))


def _draw_panel_of_lanes(
    page: _LanesPage, title: str, lanes: Lanes, top: float
) -> list:
    """Draw from `top` downwards; where the lanes are, and their names."""
    if title:
        top -= TITLE
        page.ax.text(0, top + 0.03, title, fontsize=8.5, fontweight="bold", va="bottom")
        if title in figures.STAMPS:  # a plan beside what was measured
            page.ax.text(
                page.length * 1.1, top + 0.03, title,
                fontsize=7, color=GREY, ha="right", va="bottom",
            )  # fmt: skip
    _, length = extent_of_lanes(lanes)
    ticks = []
    for name, bars in lanes.items():
        _draw_lane(page, top, bars, length)
        ticks.append((top - _height_of_lane(bars) / 2, name))
        top -= _height_of_lane(bars)
    return ticks


def _draw_lane(page: _LanesPage, top: float, bars: list[Bar], length: float) -> None:
    thick, rows = _height_of_lane(bars) - SPACE, _rows_in_lane(bars)
    middle = top - SPACE / 2 - thick / 2
    page.ax.barh(middle, length, thick, color=figures.IDLE, zorder=0)
    for bar, row in _bars_placed_in_lane(bars):
        y = top - SPACE / 2 - thick * (row + 0.5) / rows
        _draw_bar_in_lane(page, bar, y, thick / rows)
        _label_bar(page, bar, y, fontsize=7.5 if rows == 1 else 6)
    page.ax.text(
        page.length * 1.01, middle, shares_of_lane(bars, length),
        fontsize=7, color=GREY, va="center",
    )  # fmt: skip


def _rows_in_lane(bars: list[Bar]) -> int:
    return 1 + max((row for _, row in _bars_placed_in_lane(bars)), default=0)


def _bars_placed_in_lane(bars: list[Bar]) -> list[tuple[Bar, int]]:
    """Each bar with the first row where it overlaps none: nested work goes below."""
    ends: list[float] = []
    placed = []
    for bar in sorted(bars, key=lambda bar: (bar.start, -bar.end)):
        row = next((r for r, end in enumerate(ends) if end <= bar.start), len(ends))
        ends[row : row + 1] = [bar.end]
        placed.append((bar, row))
    return placed


def _draw_bar_in_lane(page: _LanesPage, bar: Bar, y: float, thick: float) -> None:
    long, face = bar.end - bar.start, _face_of_bar(page, bar)
    thin = long < 0.003 * page.length  # its edges would hide it
    edge = GREY if bar.kind == WAIT else face if thin else "white"
    look = {"edgecolor": edge, "linewidth": 0.6}
    look["hatch"] = "////" if page.filled and _is_cpu_of_bar_unknown(bar) else None
    if bar.cpu is not None:
        page.ax.barh(
            y,
            long,
            thick,
            bar.start,
            color=figures.light_colour(face),
            zorder=1,
            **look,
        )
        y, thick = y - thick * (1 - bar.cpu) / 2, thick * bar.cpu
    page.ax.barh(y, long, thick, bar.start, color=face, zorder=2, **look)


def _is_cpu_of_bar_unknown(bar: Bar) -> bool:
    """Whether this is work of which nobody could measure the CPU time."""
    return bar.cpu is None and bar.kind != WAIT


def _face_of_bar(page: _LanesPage, bar: Bar) -> str:
    if bar.kind == WAIT:
        return figures.PALE
    colour = page.colours[bar.kind]
    return figures.light_colour(colour) if bar.light else colour


def _label_bar(page: _LanesPage, bar: Bar, y: float, fontsize: float) -> None:
    room = bar.end - bar.start
    fits = (label for label in bar.labels if len(label) * page.letter < room)
    label = next(fits, "")
    text = page.ax.text(
        (bar.start + bar.end) / 2, y, label, fontsize=fontsize,
        color=figures.ink_colour(_face_of_bar(page, bar)),
        ha="center", va="center", zorder=3,
    )  # fmt: skip
    if page.filled and bar.kind != WAIT:  # letters on both shades
        text.set(color="black", path_effects=[withStroke(linewidth=2, foreground="w")])


def _key_to_bars(bars: list[Bar], colours: dict[str, str], filled: bool) -> list[Patch]:
    key = [Patch(color=colour, label=kind) for kind, colour in colours.items()]
    if any(bar.kind == WAIT for bar in bars):
        key.append(Patch(facecolor=figures.PALE, edgecolor=GREY, label=WAIT))
    if filled:
        key.append(Patch(color=GREY, label="solid: on a core"))
        key.append(
            Patch(color=figures.light_colour(GREY), label="light: not on a core")
        )
    if filled and any(map(_is_cpu_of_bar_unknown, bars)):
        striped = Patch(facecolor=GREY, edgecolor="white", hatch="////")
        striped.set_label("striped: unknown")
        key.append(striped)
    return key


def _draw_axes_of_lanes(page: _LanesPage, ticks: list, tall: float, unit: str) -> None:
    ax = page.ax
    ax.set_yticks(*zip(*ticks, strict=True), fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8)
    ax.spines["left"].set_visible(False)
    ax.set_xlim(0, page.length * 1.1)
    if unit == "slots":
        ax.locator_params(axis="x", integer=True)  # there is no half slot
    ax.set_ylim(-tall - 0.02, 0)
    ax.set_xlabel(f"time ({unit})", fontsize=8, labelpad=1)
