"""Bytes that each rank keeps for backward, as bars under each other."""

from sidebyside import COLOURS, figure
from sidebyside.figures import NOBODYS, light_colour


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
