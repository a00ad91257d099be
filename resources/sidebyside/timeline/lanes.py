"""Lanes of bars: who did what, and when, in numbers and in letters.

A lane is a worker, a bar is a piece of its work, and time runs to the right. Grey is
idle. A bar of the kind `WAIT` is a worker that waits for another: it is pale, and it
counts as idle, because waiting is not work. Timelines and schedules are both made
of lanes; they only say what their bars are. `lanes_picture` draws them.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

WAIT = "wait"


class Bar(NamedTuple):
    """Work of a `kind`, which has a colour; the first label that fits is shown."""

    start: float
    end: float
    kind: str
    labels: tuple[str, ...] = ()
    light: bool = False  # in the light shade of its colour
    cpu: float | None = None  # the share of its time on a core: so high it is filled


Lanes = Mapping[str, list[Bar]]


def extent_of_lanes(lanes: Lanes) -> tuple[float, float]:
    """The first start and the last end."""
    bars = [bar for lane in lanes.values() for bar in lane]
    return min(bar.start for bar in bars), max(bar.end for bar in bars)


def idle_share_of_lane(bars: list[Bar], length: float) -> float:
    """The share of `length` in which a lane does nothing, or waits."""
    waits = [bar for bar in bars if bar.kind == WAIT]
    working = _covered_in_lane(bars) - _covered_in_lane(waits)
    return max(0.0, 1 - working / length) if length > 0 else 0.0


def _covered_in_lane(bars: list[Bar]) -> float:
    """The time in which at least one of `bars` is open."""
    total, reached = 0.0, float("-inf")
    for bar in sorted(bars):
        total += max(0.0, bar.end - max(bar.start, reached))
        reached = max(reached, bar.end)
    return total


def _cpu_share(bars: list[Bar], length: float) -> float | None:
    """The share of `length` on a core; None if no bar says how much it had."""
    known = [bar for bar in bars if bar.cpu is not None]
    outermost, reached = [], float("-inf")
    for bar in sorted(known, key=lambda bar: (bar.start, -bar.end)):
        if bar.end > reached:  # not inside one that counts already
            outermost.append(bar)
            reached = bar.end
    on_core = sum(bar.cpu * (bar.end - bar.start) for bar in outermost)
    return on_core / length if known and length > 0 else None


def shares_of_lane(bars: list[Bar], length: float) -> str:
    """What stands at the end of a lane: "idle 20 %", and CPU time if it is known."""
    cpu = _cpu_share(bars, length)
    idle = f"idle {100 * idle_share_of_lane(bars, length):.0f} %"
    return idle if cpu is None else f"{idle}, core {100 * cpu:.0f} %"


def write_lane(
    bars: list[Bar],
    start: float,
    column: float,
    columns: int,
    marks: Callable[[Bar], tuple[str, str]],
    idle: str = ".",
) -> str:
    """A lane in so many columns, each for `column` of time from `start` on."""
    cells = [idle] * columns
    longest_first = sorted(bars, key=lambda bar: bar.start - bar.end)
    places = [
        min(round((b.start - start) / column), columns - 1) for b in longest_first
    ]
    for bar, place in zip(longest_first, places, strict=True):  # nested work on top
        after = max(place + 1, min(columns, round((bar.end - start) / column)))
        cells[place:after] = [marks(bar)[1]] * (after - place)
    for bar, place in zip(longest_first, places, strict=True):
        cells[place] = marks(bar)[0]  # each shows where it begins
    return "".join(cells)
