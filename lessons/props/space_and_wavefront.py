"""Pictures of lesson 14b: halves with halo, bytes of splits, cells."""

from collections.abc import Mapping

from matplotlib.patches import Rectangle
from torch import Tensor

from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import FAINT

Cells = Mapping[tuple[int, int], int]  # (layer, time step): slot


def draw_halves_with_halo(image: Tensor):
    """The upper and the lower half of an image (8, 8), each with its halo framed."""
    alt = "two halves of a digit: each has a copy of the other's row at the cut"
    fig, axes = figure(1, 2, height=2.2, stamp="", alt=alt)
    for rank, ax in enumerate(axes):
        rows = range(5) if rank == 0 else range(3, 8)
        halo = 4 if rank == 0 else 3
        extent = (-0.5, 7.5, rows[-1] + 0.5, rows[0] - 0.5)
        part = 1 - image[rows[0] : rows[-1] + 1].numpy()
        ax.imshow(part, cmap="gray", extent=extent)
        frame = Rectangle((-0.5, halo - 0.5), 8, 1, fill=False, lw=2.5, ec=COLOURS[1])
        ax.add_patch(frame)
        ax.text(7.9, halo, "halo", color=COLOURS[1], va="center")
        ax.set(xticks=[], yticks=rows, ylabel="row", ylim=(7.6, -0.6), xlim=(-1, 10.5))
        ax.set_title(f"rank {rank}", fontsize=9)
        ax.spines[:].set_visible(False)
    return fig


def draw_bytes_of_splits(cases: Mapping[str, Mapping[str, int]]):
    """A bar for each way to split in each case: bytes that a rank sends in a step."""
    alt = "; ".join(
        f"{case}: " + ", ".join(f"{way} {sent:,}" for way, sent in ways.items())
        for case, ways in cases.items()
    )
    fig, axes = figure(
        1, len(cases), height=1.9, stamp="computed", alt=alt, squeeze=False
    )
    for ax, (case, ways) in zip(axes[0], cases.items(), strict=True):
        least, most = min(ways, key=ways.get), max(ways.values())
        for place, (way, sent) in enumerate(ways.items()):
            colour, ink = (COLOURS[0],) * 2 if way == least else (COLOURS[4], "black")
            ax.barh(-place, sent / most, color=colour, height=0.6)
            shown = f" {sent / 1e6:.{2 if sent < 1e7 else 0}f} MB"
            ax.text(sent / most, -place, shown, color=ink, va="center", fontsize=8)
        ax.set(yticks=[0, -1, -2], yticklabels=ways, xticks=[], xlim=(0, 1.6))
        ax.set_title(case, fontsize=9)
        ax.spines["bottom"].set_visible(False)
    return fig


def draw_cells(plans: Mapping[str, Cells], marked: int = 4):
    """A grid for each plan: the number in a cell is the slot in which it runs.

    Cells of the slot `marked` are dark.
    """
    alt = "\n".join(
        f"{title}\n{_grid_in_letters(cells)}" for title, cells in plans.items()
    )
    fig, axes = figure(
        1, len(plans), height=1.9, stamp="computed", alt=alt, squeeze=False
    )
    for ax, (title, cells) in zip(axes[0], plans.items(), strict=True):
        for (layer, step), slot in cells.items():
            dark = slot == marked
            face = COLOURS[0] if dark else FAINT
            ax.add_patch(Rectangle((step - 0.46, layer - 0.46), 0.92, 0.92, fc=face))
            ink = "white" if dark else "black"
            ax.text(step, layer, str(slot), color=ink, ha="center", va="center")
        layers, steps = (1 + max(places) for places in zip(*cells, strict=True))
        ax.set(xlim=(-0.6, steps - 0.4), ylim=(-0.6, layers - 0.4))
        ax.set(xticks=range(steps), yticks=range(layers))
        ax.set(xlabel="time step", ylabel="layer")
        ax.tick_params(length=0)
        ax.set_title(title, fontsize=9)
        ax.spines[:].set_visible(False)
    return fig


def _grid_in_letters(cells: Cells) -> str:
    """One line for each layer, the last on top, as drawn."""
    layers, steps = (1 + max(places) for places in zip(*cells, strict=True))
    return "\n".join(
        f"layer {layer}: "
        + " ".join(f"{cells[layer, step]:2}" for step in range(steps))
        for layer in reversed(range(layers))
    )
