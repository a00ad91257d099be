"""Pictures of lesson 16b: which rank holds which heads, and what it keeps."""

from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import NOBODYS, light_colour


def draw_heads(heads: int, ranks: int):
    """From x by way of each head to the sum: one line of boxes for each head.

    Heads are shared out in order, and their number may differ by 1 between ranks.
    """
    owners = [rank for rank in range(ranks) for _ in range(heads)[rank::ranks]]
    alt = f"{heads} heads on {ranks} ranks: each goes from into to out by itself"
    fig, ax = figure(height=0.42 * heads + 0.5, stamp="", alt=alt)
    _box_of_head(ax, 0, (heads - 1) / 2, 0.8, heads - 0.2, "x", None)
    for head, rank in enumerate(owners):
        texts = "query, key, value", "compare and mix", "rows of out"
        ax.text(1.0, head, f"rank {rank}, head {head}", va="center")
        for place, text in enumerate(texts):
            left = 2.75 + 2.25 * place
            _box_of_head(ax, left, head, 1.95, 0.8, text, rank)
            ax.annotate("", (left + 2.25, head), (left + 1.95, head), arrowprops=_ARROW)
    _box_of_head(ax, 9.5, (heads - 1) / 2, 1.5, heads - 0.2, "all-reduce", None)
    ax.set(xlim=(-0.1, 11.1), ylim=(heads - 0.3, -0.7))
    ax.set_axis_off()
    return fig


_ARROW = {"arrowstyle": "->", "color": "black"}


def _box_of_head(ax, left, middle, width, height, text: str, rank: int | None) -> None:
    from matplotlib.patches import Rectangle

    colour = NOBODYS if rank is None else light_colour(COLOURS[rank])
    corner = left, middle - height / 2
    ax.add_patch(Rectangle(corner, width, height, facecolor=colour, edgecolor="black"))
    ax.text(left + width / 2, middle, text, ha="center", va="center", color="black")


def draw_kept_on_edges():
    """Both halves of a block, and on each edge the bytes kept, in units of sbh."""
    mask = "dropout\nmask: 1"
    halves = (
        ("x", "norm", "into", "attention\n5as/h", "out", mask, "+"),
        ("x", "norm", "wide", "GELU", "narrow", mask, "+"),
    )
    alt = (
        "kept for backward, in units of sbh: x 2, input of into 2, query, key and value"
    )
    alt += " 6, attention 5as/h, its output 2, dropout's mask 1; x 2, input of wide 2,"
    alt += (
        " before GELU 8, after it 8, dropout's mask 1. Divided: what lies in the pairs"
    )
    fig, ax = figure(height=2.3, stamp="published", alt=alt)
    for row, (half, kept) in enumerate(zip(halves, ("2262", "2288"), strict=True)):
        for place, name in enumerate(half):
            left, y = 1.6 * place, 1.5 * row
            _box_of_head(ax, left, y, 1.1, 0.8, name, 0 if 2 <= place <= 4 else None)
            if place:
                ax.annotate("", (left, y), (left - 0.5, y), arrowprops=_ARROW)
                ax.text(left - 0.27, y - 0.15, kept[place - 1 : place], ha="center")
    ax.text(0, -0.6, "bytes kept ÷ sbh")
    ax.text(5.35, -0.6, "in the pair: divided among the ranks", ha="center")
    ax.set(xlim=(-0.1, 10.8), ylim=(2.0, -0.9))
    ax.set_axis_off()
    return fig


def draw_kept_bytes(kept: dict[tuple[int, str], int]):
    """A bar for each (ranks, way); the first one is the whole layer."""
    whole = next(iter(kept.values()))
    alt = "bytes kept by each rank: " + ", ".join(
        f"{way} on {ranks}: {size}" for (ranks, way), size in kept.items()
    )
    fig, ax = figure(height=0.36 * len(kept) + 0.6, stamp="measured here", alt=alt)
    for place, ((ranks, way), size) in enumerate(kept.items()):
        name = "one rank" if ranks == 1 else f"{ranks} ranks, {way}"
        colour = NOBODYS if ranks == 1 else light_colour(COLOURS[0])
        ax.barh(place, size, color=colour, edgecolor="black", height=0.7)
        ax.text(-0.01 * whole, place, name, ha="right", va="center")
        share = f"{size:,} bytes, {size / whole:.2f} of the whole"
        if ranks == 1:
            share = f"{size:,} bytes"
        ax.text(size + 0.01 * whole, place, share, va="center")
    ax.set(xlim=(-0.35 * whole, 1.3 * whole), ylim=(len(kept) - 0.4, -0.6))
    ax.set_axis_off()
    return fig
