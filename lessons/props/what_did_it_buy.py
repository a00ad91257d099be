"""The picture of lesson 11c: samples per second, beside what the machine can do."""

from statistics import median

from parallel_by_hand.ddp.step_speed import WAYS
from sidebyside import COLOURS, figure

LABELS = ("2 threads", "batch split", "batch grown", "capacity")
MARKS = ("-s", "-v", "-^", "--")


def draw_scaling(speeds: dict[str, dict[str, list[float]]], capacity: float):
    """A panel for each network: the median of each way, over one rank and over two."""
    alt = "samples per second of one process, of two threads, and of two ranks whose "
    alt += "batch is split or grown, beside the capacity of two cores"
    fig, axes = figure(1, len(speeds), height=2.8, alt=alt)
    for ax, (network, found) in zip(axes, speeds.items(), strict=True):
        one, *others = (median(found[way]) for way in WAYS)
        ends = [*others, capacity * one]
        lines = zip(ends, LABELS, MARKS, (*COLOURS[1:4], "black"), strict=True)
        height = -max(ends)
        for end, label, mark, colour in sorted(lines):
            ax.plot([1, 2], [one, end], mark, color=colour)
            height = max(end, height + max(ends) / 12)  # labels lie apart
            ax.text(2.05, height, label, va="center", color=colour, fontsize=8)
        ax.set(title=network, xticks=[1, 2], xlim=(0.9, 2.6), xlabel="cores at work")
        ax.set_ylim(0, 1.1 * max(ends))
    axes[0].set_ylabel("samples per second")
    return fig
