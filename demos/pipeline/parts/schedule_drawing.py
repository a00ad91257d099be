"""Draw a schedule as a figure or as text: time to the right, one lane per rank."""

from collections.abc import Mapping

from demos.pipeline.parts.schedule_rules import Slot, bubble
from demos.pipeline.parts.schedule_rules import timetable_length as length
from demos.pipeline.parts.schedules import read_instruction as read
from sidebyside.figures import COLOURS, figure

WORK = {"F": (COLOURS[0], "#99CCEE"), "B": (COLOURS[1], "#F5B88A")}
IDLE, GREY = "#EEEEEE", "#767676"


def draw(
    slots: list[Slot] | Mapping[str, list[Slot]],
    unit: str = "slots",
    stamp: str = "computed",
):
    """A figure of one timetable, or of several, by title, on one time axis.

    Blue is forward, orange is backward, the number is the micro-batch; grey is a
    rank that waits, and the share of idle time stands at the right.
    """
    panels = slots if isinstance(slots, Mapping) else {"": slots}
    lanes = sum(_ranks(panel) for panel in panels.values())
    titled = sum(bool(title) for title in panels)
    tall = 0.3 * lanes + 0.3 * titled + 0.65
    fig, ax = figure(height=tall, stamp=stamp)
    longest = max(map(length, panels.values()))
    top, ticks = 0.0, []
    for title, panel in panels.items():
        if title:
            ax.text(0, top, title, fontsize=8.5, fontweight="bold", va="bottom")
        _draw_panel(ax, panel, top, longest)
        ticks += [(top - rank - 0.5, f"rank {rank}") for rank in range(_ranks(panel))]
        top -= _ranks(panel) + (1 if titled else 0.2)
    ax.set_yticks([y for y, _ in ticks], [name for _, name in ticks], fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8)
    ax.spines["left"].set_visible(False)
    ax.set_xlim(0, longest * 1.1)
    ax.set_ylim(top + (1 if titled else 0.2) - 0.1, 0.9 if titled else 0.1)
    ax.set_xlabel(f"time ({unit})", fontsize=8, labelpad=1)
    fig.alt = f"schedule, {stamp}"
    if stamp == "computed":  # the alt text of what is measured must not differ
        column = min(map(_shortest, panels.values()))  # one time axis for all
        wide = max(map(_widest, panels.values()))
        for title, panel in panels.items():
            fig.alt += f"\n{title}\n{text(panel, column, wide)}"
    return fig


def _draw_panel(ax, slots: list[Slot], top: float, longest: float) -> None:
    begin = min(slot.start for slot in slots)
    for rank in range(_ranks(slots)):
        mine = [slot for slot in slots if slot.rank == rank]
        y = top - rank - 0.5
        ax.barh(y, length(slots), height=0.86, color=IDLE, zorder=1)
        for slot in mine:
            left, wide = slot.start - begin, slot.end - slot.start
            work = read(slot.instruction, rank)
            thin = work.stage // _ranks(slots) % 2  # a rank's second stage is paler
            ax.barh(
                y, wide, 0.86, left, color=WORK[work.kind][thin], linewidth=0.7,
                edgecolor="white",
            )  # fmt: skip
            for label in (slot.instruction, str(work.microbatch)):
                if wide > 0.0118 * len(label) * longest:
                    ax.text(
                        left + wide / 2, y, label, color=("white", "black")[thin],
                        fontsize=7.5, ha="center", va="center",
                    )  # fmt: skip
                    break
        busy = sum(slot.end - slot.start for slot in mine)
        idle = abs(1 - busy / length(slots))
        ax.text(
            longest * 1.01, y, f"idle {100 * idle:.0f} %", fontsize=7, color=GREY,
            va="center",
        )  # fmt: skip


def text(slots: list[Slot], column: float = 0, wide: int = 0) -> str:
    """The same in letters, one line per rank; dots are a rank that waits.

    A column of `wide` letters stands for `column` of time: without them, for the
    shortest piece of work. A longer piece is repeated in each of its columns.
    """
    begin = min(slot.start for slot in slots)
    column, wide = column or _shortest(slots), wide or _widest(slots)
    columns = round(length(slots) / column)
    lines = []
    for rank in range(_ranks(slots)):
        cells = ["." + " " * (wide - 1)] * columns
        for slot in (slot for slot in slots if slot.rank == rank):
            first = round((slot.start - begin) / column)
            last = max(first + 1, round((slot.end - begin) / column))
            cells[first:last] = [slot.instruction.ljust(wide)] * (last - first)
        lines.append(f"rank {rank} | {''.join(cells[:columns]).rstrip()}")
    return "\n".join([*lines, f"bubble {100 * bubble(slots):.1f} %"])


def _shortest(slots: list[Slot]) -> float:
    return min(slot.end - slot.start for slot in slots)


def _widest(slots: list[Slot]) -> int:
    return 1 + max(len(slot.instruction) for slot in slots)


def _ranks(slots: list[Slot]) -> int:
    return 1 + max(slot.rank for slot in slots)
