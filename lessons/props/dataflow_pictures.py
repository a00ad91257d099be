"""Pictures of lesson 13b: the proof of Graham's bound, and autograd's graph."""

from collections.abc import Collection, Mapping, Sequence

from parallel_by_hand.dataflow.simulated_devices import (
    RanOperation,
    draw_dataflow,
    makespan,
)
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import NOBODYS


def draw_idle_beside_path(ran: list[RanOperation], path: Collection[str]):
    """The picture of `ran`: idle slots are striped, operations of `path` framed."""
    fig = draw_dataflow(ran)
    look = {"height": 0.78, "fill": False, "edgecolor": COLOURS[1]}
    for device in {run.device for run in ran}:
        mine, y = [run for run in ran if run.device == device], -device - 0.5
        for slot in range(makespan(ran)):
            if not any(run.start <= slot < run.end for run in mine):
                fig.axes[0].barh(y, 1, left=slot, hatch="///", **look)
        for run in mine:
            if run.operation.name in path:
                wide = run.end - run.start
                fig.axes[0].barh(y, wide, left=run.start, linewidth=3, zorder=3, **look)
    fig.suptitle("striped: a device idles; framed: the longest path", fontsize=9)
    fig.alt += f"\nthe longest path: {', '.join(path)}"
    return fig


COLUMNS = 0, 1, 2, 2, 4, 3, 3, 5, 6
ROWS = 0, 0, 0.6, -0.6, 0, 1.1, -0.6, 0, 0


def draw_backward_graph(nodes: Sequence, missing: Mapping):
    """The lesson's nine nodes of autograd, with the gradients that each waits for."""
    alt = "from the loss back to the weights: " + ", ".join(
        f"{node.name()} waits for {missing[node]}" for node in nodes
    )
    fig, ax = figure(height=2.4, stamp="computed", alt=alt)
    places = dict(zip(nodes, zip(COLUMNS, ROWS, strict=True), strict=True))
    for node, (x, y) in places.items():
        name = node.name().split("::")[-1].removesuffix("Backward0")
        box = {"boxstyle": "round", "facecolor": NOBODYS}
        text = ax.text(x, y, f"{name}\n{missing[node]}", va="center", bbox=box)
        text.set(ha="center", multialignment="center")
        if name == "AccumulateGrad":  # too wide to be centred where the arrow ends
            text.set(ha="left", x=x - 0.22)
        readers = [reader for reader, _ in node.next_functions if reader is not None]
        for number, reader in enumerate(readers):
            bend = 0.25 * number * (readers.count(reader) - 1)
            arrow = {"arrowstyle": "->", "shrinkA": 22, "shrinkB": 24}
            arrow["connectionstyle"] = f"arc3,rad={bend}"
            ax.annotate("", places[reader], (x, y), arrowprops=arrow)
    ax.set(xlim=(-0.4, 7.1), ylim=(-1.1, 1.6))
    ax.set_axis_off()
    return fig
