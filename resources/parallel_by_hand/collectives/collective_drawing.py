"""Draw who holds what before and after a collective: one style for all eight."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from parallel_by_hand.collectives.collective_writing import (
    collective_text,
    written_piece,
)
from parallel_by_hand.collectives.who_holds_what import CollectiveRun, Held
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import GREY, IDLE, ink_colour, light_colour


def draw_collectives(runs: Mapping[str, CollectiveRun]):
    """A figure: for each operation a square before and one after, two in a row.

    A row of squares is a rank, a column a piece. The colour is the rank that a number
    comes from; black is a sum. The right half is what the call has written; a
    question mark is a value that is not defined.
    """
    rows = -(-len(runs) // 2)
    ranks = max(len(run.before) for run in runs.values())
    fig, axes = figure(
        rows,
        2 if len(runs) > 1 else 1,
        width=8 if len(runs) > 1 else 4.4,
        height=rows * (0.75 + 0.22 * ranks),
        squeeze=False,
    )
    for ax, (name, run) in zip(axes.flat, runs.items(), strict=False):
        _draw_collective(ax, name, run)
    for ax in axes.flat[len(runs) :]:
        ax.set_axis_off()
    fig.alt = "\n\n".join(collective_text(name, run) for name, run in runs.items())
    return fig


def _draw_collective(ax: Axes, name: str, run: CollectiveRun) -> None:
    ranks, gap = len(run.before), 1.2
    for left, rows, when in (
        (0, run.before, "before"),
        (ranks + gap, run.after, "after"),
    ):
        for rank, row in enumerate(rows):
            for column in range(ranks):
                _draw_piece(ax, left + column, rank, row, column)
        right = left + ranks - 0.08
        ax.text(right, -0.2, when, fontsize=7.5, color=GREY, ha="right", va="bottom")
    for rank in range(ranks):
        ax.text(-0.2, rank + 0.5, f"rank {rank}", fontsize=7.5, ha="right", va="center")
    middle = ranks + gap / 2
    ax.annotate(
        "",
        (middle + 0.45, ranks / 2),
        (middle - 0.45, ranks / 2),
        arrowprops={"arrowstyle": "->", "color": GREY},
    )
    title = name.replace("_", "-")
    ax.text(0, -0.2, title, fontsize=8.5, fontweight="bold", va="bottom")
    ax.set(xlim=(-1.3, 2 * ranks + gap), ylim=(ranks + 0.1, -1.1))
    ax.set_axis_off()


def _draw_piece(ax: Axes, x: float, y: float, row: Held, column: int) -> None:
    if column not in row:
        ax.add_patch(Rectangle((x, y), 0.92, 0.88, facecolor=IDLE))
        return
    number = row[column]
    face = "white" if number is None else _colour_of_number(number)
    ax.add_patch(Rectangle((x, y), 0.92, 0.88, facecolor=face, edgecolor=GREY, lw=0.5))
    ax.text(
        x + 0.46, y + 0.46, written_piece(row, column), color=ink_colour(face),
        fontsize=7 if number is None or number < 10**5 else 5, ha="center", va="center",
    )  # fmt: skip


def _colour_of_number(number: int) -> str:
    """The colour of the rank whose digit is the only one in it; black for a sum."""
    digits = str(number)
    if set(digits[1:]) - {"0"}:
        return COLOURS[4]
    return light_colour(COLOURS[(len(digits) - 1) % 4])
