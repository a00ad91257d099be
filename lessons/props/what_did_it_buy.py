"""The picture of lesson 11c: samples per second, beside what the machine can do."""

from statistics import median

from parallel_by_hand.ddp.step_speed import WAYS
from sidebyside import COLOURS, figure

LABELS = ("", "2 threads", "batch split", "batch grown")
MARKS = ("o", "s", "v", "^")


def draw_scaling(speeds: dict[str, dict[str, list[float]]], capacity: float):
    """A panel for each network: the median of each way, over one rank and over two."""
    alt = "samples per second of one process, of two threads, and of two ranks whose "
    alt += "batch is split or grown, beside what two cores could do at best"
    fig, axes = figure(1, len(speeds), height=2.8, alt=alt)
    for ax, (network, found) in zip(axes, speeds.items(), strict=True):
        medians = [median(found[way]) for way in WAYS]
        ax.plot([1, 2], [medians[0], capacity * medians[0]], "--", color="black", lw=1)
        at_end = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate("capacity", (2, capacity * medians[0]), **at_end, fontsize=8)
        for place, (label, mark) in enumerate(zip(LABELS, MARKS, strict=True)):
            colour, x = COLOURS[place], min(place, 1) + 1
            ax.plot([1, x], [medians[0], medians[place]], f"-{mark}", color=colour)
            end = x, medians[place]
            ax.annotate(label, end, **at_end, color=colour, fontsize=8)
        ax.set(title=network, xticks=[1, 2], xlim=(0.9, 2.6), xlabel="cores at work")
        ax.set_ylim(0, None)
    axes[0].set_ylabel("samples per second")
    return fig
