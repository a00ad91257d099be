"""Figures with one look: safe colours, and a stamp that names the numbers' source."""

import io
from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Any

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image, ImageDraw  # matplotlib brings it

CARD = (
    "#F7F7F5"  # behind a figure: on a light page it hardly shows, a dark one it spares
)
COLOURS = ["#005390", "#BB4C00", "#0F8157", "#A55480", "#000000"]
"""Okabe and Ito's palette, darker: letters in a line's colour can be read, too."""

GREY = "#6B6B6B"
IDLE = "#E6E6E4"
NOBODYS = "#E0E0DE"  # of what belongs to no rank, or to all
FAINT = "#E4EEF5"  # of what a figure does not speak of yet
PALE = "#FFF9DB"  # of a bar that waits; it has a dark edge and dark letters
FIXED = {"forward": COLOURS[0], "backward": COLOURS[1]}  # in all lessons
STAMPS = ("measured here", "simulated", "computed", "planned", "published")

CLEAR = 127  # the colour of a picture's corners, which shows the page

_remembered: dict[str, str] = {}


def colours_of(
    kinds: Iterable[str], remembered: dict[str, str] = _remembered
) -> dict[str, str]:
    """A colour for each kind of work in a figure, the same in all figures.

    A kind keeps the colour that it got in the first figure that shows it, for as long
    as this process runs: so a cell that runs again, or out of turn, agrees with the
    figures around it. A new kind gets the colour that the fewest have, and one that
    its own figure does not have yet, if there is one left.
    """
    kinds = list(dict.fromkeys(kinds))
    known = remembered | FIXED
    chosen = {kind: known[kind] for kind in kinds if kind in known}
    for kind in (kind for kind in kinds if kind not in known):
        free = [c for c in COLOURS if c not in chosen.values()] or COLOURS
        users = Counter(remembered.values())
        chosen[kind] = remembered[kind] = min(free, key=lambda c: users[c])
    return chosen


def light_colour(colour: str) -> str:
    """The light shade of `colour`, for black letters."""
    red, green, blue = (round(255 * (0.4 * part + 0.6)) for part in to_rgb(colour))
    return f"#{red:02X}{green:02X}{blue:02X}"


def _luminance(colour: str) -> float:
    """How bright `colour` is, from 0 to 1, as the web's guidelines (WCAG) count it."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(colour)
    ]
    return sum(
        w * part for w, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
    )


def contrast_of_colours(one: str, other: str) -> float:
    """From 1, no difference, to 21, black on white."""
    dark, bright = sorted((_luminance(one), _luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def ink_colour(colour: str) -> str:
    """Black or white: the letters that stand out more on `colour`."""
    return max(
        "white", "black", key=lambda letters: contrast_of_colours(letters, colour)
    )


class Figure(MatplotlibFigure):
    """A matplotlib figure that a notebook shows and that is described by `alt`."""

    alt = "a figure"
    live = ""  # HTML that takes its place where scripts run: see `touchable`

    def __repr__(self) -> str:
        return f"<figure: {self.alt}>"

    def _ipython_display_(self) -> None:
        """Show the picture, and its description below, where JupyterLab reads it out.

        The picture's metadata have the description too, for exported pages.
        """
        from IPython.display import display

        picture = {"image/png": self._repr_png_(), "text/plain": repr(self)}
        display(picture, metadata={"image/png": {"alt": self.alt}}, raw=True)
        display({"text/html": caption_of_figure(self.alt)}, raw=True)
        if self.live:
            display({"text/html": self.live}, raw=True)

    def _repr_png_(self) -> bytes:
        large, small = io.BytesIO(), io.BytesIO()
        self.savefig(large, format="png", dpi=110)
        # 127 colours are enough for lines and letters, and keep that of a small spot,
        # such as one in a legend: a third of the bytes
        picture = Image.open(large).convert("RGB").quantize(CLEAR)
        corners = Image.new("1", picture.size, 1)
        edge = 0, 0, picture.width - 1, picture.height - 1
        ImageDraw.Draw(corners).rounded_rectangle(edge, radius=12, fill=0)
        picture.paste(CLEAR, mask=corners)
        palette = [*(picture.getpalette() or []), *[0] * 3 * CLEAR]
        picture.putpalette(palette[: 3 * (CLEAR + 1)])
        picture.save(small, "PNG", optimize=True, transparency=CLEAR)
        return small.getvalue()


def caption_of_figure(alt: str) -> str:
    """What stands below a figure: its description, folded away if it is long."""
    if "\n" not in alt:
        return f"<p><small>Figure: {escape(alt)}</small></p>"
    summary = "<summary><small>The figure in words</small></summary>"
    return f"<details>{summary}<pre>{escape(alt)}</pre></details>"


def figure(
    rows: int = 1,
    columns: int = 1,
    width: float = 8,
    height: float = 3,
    stamp: str = "measured here",
    alt: str = "",
    **options,
) -> tuple[Figure, Any]:
    """A new figure of `width` x `height` inches and its axes, as `plt.subplots` gives.

    `stamp` says where the numbers come from and stands in the corner: one of STAMPS,
    or "" for a diagram without numbers. `alt` describes the figure for people who do
    not see it, and stands below it in a notebook. `options` go to `Figure.subplots`.
    """
    if stamp and stamp not in STAMPS:
        raise ValueError(f"stamp must be one of {', '.join(STAMPS)}, not {stamp!r}")
    padded = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06)
    made = Figure(figsize=(width, height), layout=padded, facecolor=CARD)
    made.alt = alt or f"a figure, {stamp}"
    axes = made.subplots(rows, columns, **options)
    for ax in made.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_facecolor("none")
    made.supxlabel(stamp, x=0.985, ha="right", fontsize=7, color=GREY)
    return made, axes
