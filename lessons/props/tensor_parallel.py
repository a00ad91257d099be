"""Pictures of lesson 16a: matrix products in the colours of the ranks."""

from collections.abc import Sequence

import torch

from parallel_by_hand.tensor_parallel.split_layer import split_columns, split_rows
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import NOBODYS, light_colour

CELL = 0.34  # inches


def draw_split_layer(x: torch.Tensor, matrix: torch.Tensor):
    """x @ matrix on one rank, by columns on two ranks, and by rows on two ranks."""
    columns, rows = ["columns"], ["rows"]
    x_parts, row_parts = split_columns(x, 2), split_rows(matrix, 2)
    for rank, part in enumerate(split_columns(matrix, 2)):
        mine, its_rows = x_parts[rank], row_parts[rank]
        columns += [f"rank {rank}:", (x, None), "·", (part, rank), "="]
        columns.append((x @ part, rank))
        rows += [f"rank {rank}:", (mine, rank), "·", (its_rows, rank), "="]
        rows += [(mine @ its_rows, rank), *["+"] * (rank == 0)]
    whole = ["one rank", (x, None), "·", (matrix, None), "=", (x @ matrix, None)]
    return _draw_products([whole, columns, rows], "a layer whole, by columns, by rows")


def draw_pair(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor):
    """relu(x @ first) @ second on two ranks: columns, rows, and one sum at the end."""
    lines, total = [], (x @ first).relu() @ second
    parts = zip(split_columns(first, 2), split_rows(second, 2), strict=True)
    for rank, (columns, rows) in enumerate(parts):
        hidden = (x @ columns).relu()
        line = [f"rank {rank}", (x, None), "·", (columns, rank), "→ relu →"]
        line += [(hidden, rank), "·", (rows, rank), "=", (hidden @ rows, rank)]
        lines.append([*line, "→ all-reduce →", (total, None)])
    return _draw_products(lines, "two layers on two ranks, with one sum at the end")


def _draw_products(rows: Sequence[Sequence], alt: str):
    """One line of the picture for each entry of `rows`.

    An entry lists, from left to right, symbols such as "=" and words, and pairs
    (matrix, rank); rank None is what every rank holds. A matrix is a tensor of whole
    numbers, with one or two dimensions.
    """
    heights = [max(_drawn_height(item) for item in row) + 0.7 for row in rows]
    fig, ax = figure(height=CELL * sum(heights), stamp="computed", alt=alt)
    widest = max(sum(map(_drawn_width, row)) for row in rows)
    top = 0.0
    for row, height in zip(rows, heights, strict=True):
        left = 0.0
        for item in row:
            _draw_item(ax, item, left, top + height / 2)
            left += _drawn_width(item)
        top += height
    ax.set(xlim=(0, max(widest, 8 / CELL)), ylim=(top, 0), aspect="equal")
    ax.set_axis_off()
    return fig


def _drawn_table(item) -> torch.Tensor:
    return torch.atleast_2d(item[0])


def _drawn_height(item) -> float:
    return 1 if isinstance(item, str) else len(_drawn_table(item))


def _drawn_width(item) -> float:
    if isinstance(item, str):
        return 0.7 + 0.26 * len(item)
    return 1.15 * _drawn_table(item).shape[1] + 0.2


def _draw_item(ax, item, left: float, middle: float) -> None:
    from matplotlib.patches import Rectangle

    if isinstance(item, str):
        ax.text(
            left + _drawn_width(item) / 2 - 0.1, middle, item, ha="center", va="center"
        )
        return
    table, rank = _drawn_table(item), item[1]
    colour = NOBODYS if rank is None else light_colour(COLOURS[rank])
    for i, row in enumerate(table.tolist()):
        for j, number in enumerate(row):
            place = left + 1.15 * j, middle - len(table) / 2 + i
            box = Rectangle(place, 1.15, 1, facecolor=colour, edgecolor="white")
            ax.add_patch(box)
            text = str(number).replace("-", "−")
            ax.text(place[0] + 0.575, place[1] + 0.5, text, ha="center", va="center")
