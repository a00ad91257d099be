"""Draw a schedule as a figure or as text: time to the right, one lane per rank."""

from collections.abc import Mapping

from parallel_by_hand.pipeline.schedule_rules import Slot, bubble
from parallel_by_hand.pipeline.schedule_rules import timetable_length as length
from parallel_by_hand.pipeline.schedules import read_instruction as read
from sidebyside.timeline.lanes import Bar, Lanes, extent_of_lanes, write_lane

KINDS = {"F": "forward", "B": "backward", "W": "weights"}


def draw_schedule(
    slots: list[Slot] | Mapping[str, list[Slot]], stamp: str = "computed"
):
    """A figure of one timetable, or of several, by title, on one time axis.

    Each bar's colour stands above: forward, backward, and `weights` where a backward
    is in two parts. The number is the micro-batch; grey is a rank that waits, and the
    share of idle time stands at the right.
    """
    from sidebyside.timeline.lanes_picture import (
        draw_lanes,  # slow, and letters need none
    )

    panels = slots if isinstance(slots, Mapping) else {"": slots}
    lanes = {title: _lanes_of_drawing(panel) for title, panel in panels.items()}
    fig = draw_lanes(lanes, "slots", stamp)
    fig.alt = f"schedule, {stamp}"
    # The alt text of what is measured must not differ from run to run.
    plans = {t: p for t, p in panels.items() if stamp == "computed" or t == "planned"}
    column = min(map(_shortest_drawn, plans.values()), default=0)  # one axis for all
    wide = max(map(_widest_drawn, plans.values()), default=0)
    for title, panel in plans.items():
        fig.alt += f"\n{title}\n{schedule_text(panel, column, wide)}"
    return fig


def schedule_text(slots: list[Slot], column: float = 0, wide: int = 0) -> str:
    """A schedule drawn in letters, one line per rank; dots are a rank that waits."""
    column, wide = column or _shortest_drawn(slots), wide or _widest_drawn(slots)
    lanes, columns = _lanes_of_drawing(slots), round(length(slots) / column)

    def marks(bar: Bar) -> tuple[str, str]:
        label = bar.labels[0].ljust(wide)
        return label, label

    start, _ = extent_of_lanes(lanes)
    lines = []
    for name, bars in lanes.items():
        cells = write_lane(bars, start, column, columns, marks, ".".ljust(wide))
        lines.append(f"{name} | {cells.rstrip()}")
    return "\n".join([*lines, f"bubble {100 * bubble(slots):.1f} %"])


def _lanes_of_drawing(slots: list[Slot]) -> Lanes:
    """A lane of bars for each rank; every second stage of a rank is lighter."""
    ranks = range(1 + max(slot.rank for slot in slots))
    lanes: Lanes = {f"rank {rank}": [] for rank in ranks}
    for start, end, rank, instruction in slots:
        kind, stage, microbatch = read(instruction, rank)
        labels = instruction, str(microbatch)
        is_light = bool(stage // len(ranks) % 2)
        lanes[f"rank {rank}"].append(Bar(start, end, KINDS[kind], labels, is_light))
    return lanes


def _shortest_drawn(slots: list[Slot]) -> float:
    return min(slot.end - slot.start for slot in slots)


def _widest_drawn(slots: list[Slot]) -> int:
    return 1 + max(len(slot.instruction) for slot in slots)
