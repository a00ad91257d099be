"""Figures with one look: safe colours, and a stamp that names the numbers' source."""

import io

from matplotlib.figure import Figure as MatplotlibFigure
from PIL import Image  # matplotlib brings it

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000"]
"""Line colours that keep a contrast of 3:1 on white (Okabe and Ito's palette)."""

GREY = "#767676"
STAMPS = ("measured here", "simulated", "published", "computed")


class Figure(MatplotlibFigure):
    """A matplotlib figure that a notebook shows and that is described by `alt`."""

    alt = "a figure"

    def __repr__(self) -> str:
        return f"<figure: {self.alt}>"

    def _repr_png_(self) -> bytes:
        large, small = io.BytesIO(), io.BytesIO()
        self.savefig(large, format="png", dpi=110)
        # 64 colours are enough for lines and letters: a quarter of the bytes
        Image.open(large).convert("RGB").quantize(64).save(small, "PNG", optimize=True)
        return small.getvalue()


def figure(
    rows: int = 1,
    columns: int = 1,
    width: float = 8,
    height: float = 3,
    stamp: str = "measured here",
    alt: str = "",
    **options,
) -> tuple[Figure, object]:
    """A new figure of `width` x `height` inches and its axes, as `plt.subplots` gives.

    `stamp` says where the numbers come from and stands in the corner: "measured
    here", "simulated", "published" or "computed". `alt` describes the figure for
    people who do not see it. `options` go to `Figure.subplots`.
    """
    if stamp not in STAMPS:
        raise ValueError(f"stamp must be one of {', '.join(STAMPS)}, not {stamp!r}")
    made = Figure(figsize=(width, height), layout="constrained")
    made.alt = alt or f"a figure, {stamp}"
    axes = made.subplots(rows, columns, **options)
    for ax in made.axes:
        ax.spines[["top", "right"]].set_visible(False)
    made.supxlabel(stamp, x=0.995, ha="right", fontsize=7, color=GREY)
    return made, axes
