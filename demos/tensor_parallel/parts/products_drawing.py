"""Matrix products drawn as tables of numbers, in the colour of the rank that holds them."""

from collections.abc import Sequence

import torch

from sidebyside import COLOURS, figure
from sidebyside.figures import light_colour

WHOLE = "#E8E8E8"
CELL = 0.34  # inches


def draw_products(rows: Sequence[Sequence], alt: str):
    """One line of the picture for each entry of `rows`.

    An entry lists, from left to right, symbols such as "=" and words, and pairs
    (matrix, rank); rank None is what every rank holds. A matrix is a tensor of whole
    numbers, with one or two dimensions.
    """
    heights = [max(_height(item) for item in row) + 0.7 for row in rows]
    fig, ax = figure(height=CELL * sum(heights), stamp="computed", alt=alt)
    widest = max(sum(map(_width, row)) for row in rows)
    top = 0.0
    for row, height in zip(rows, heights, strict=True):
        left = 0.0
        for item in row:
            _draw_item(ax, item, left, top + height / 2)
            left += _width(item)
        top += height
    ax.set(xlim=(0, max(widest, 8 / CELL)), ylim=(top, 0), aspect="equal")
    ax.set_axis_off()
    return fig


def _table(item) -> torch.Tensor:
    return torch.atleast_2d(item[0])


def _height(item) -> float:
    return 1 if isinstance(item, str) else len(_table(item))


def _width(item) -> float:
    if isinstance(item, str):
        return 0.7 + 0.26 * len(item)
    return 1.15 * _table(item).shape[1] + 0.2


def _draw_item(ax, item, left: float, middle: float) -> None:
    if isinstance(item, str):
        ax.text(left + _width(item) / 2 - 0.1, middle, item, ha="center", va="center")
        return
    table, rank = _table(item), item[1]
    colour = WHOLE if rank is None else light_colour(COLOURS[rank])
    for i, row in enumerate(table.tolist()):
        for j, number in enumerate(row):
            place = left + 1.15 * j, middle - len(table) / 2 + i
            box = {"width": 1.15, "height": 1, "facecolor": colour, "edgecolor": "white"}
            ax.add_patch(_rectangle(place, **box))
            text = str(number).replace("-", "−")
            ax.text(place[0] + 0.575, place[1] + 0.5, text, ha="center", va="center")


def _rectangle(place: tuple, **box):
    from matplotlib.patches import Rectangle

    return Rectangle(place, **box)
