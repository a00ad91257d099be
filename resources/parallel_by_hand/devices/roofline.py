"""The roofline of this machine: what an operation can reach at most, and what it does.

Williams, Waterman and Patterson 2009: an operation moves bytes and does arithmetic, and
takes at least as long as the longer of the two.
"""

import math
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import NamedTuple

import torch

from sidebyside import COLOURS, device, figure

ROUNDS = 20


def _vector_length() -> int:
    """So many float32 numbers that no cache holds them, and a GPU has work to do."""
    return 8_000_000 if device().type == "cpu" else 2**28


class RooflineOperation(NamedTuple):
    """What it is called, what it does to float32 numbers, and how it is run."""

    name: str
    flops: float  # additions and multiplications
    bytes: float  # each input read once, each output written once
    run: Callable[[], object]

    @property
    def intensity(self) -> float:
        """Additions and multiplications for each byte that is moved."""
        return self.flops / self.bytes


def least_seconds(
    operations: Iterable[RooflineOperation], rounds: int = ROUNDS
) -> dict[RooflineOperation, float]:
    """For the roofline: the shortest time of each, of several rounds in turn.

    A busy machine only ever adds to a time, so the shortest is nearest to the truth.
    """
    seconds = dict.fromkeys(operations, math.inf)
    for turn in range(rounds + 1):  # the first is not counted: memory is fetched
        for operation in seconds:
            began = perf_counter()
            operation.run()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn:
                elapsed = perf_counter() - began
                seconds[operation] = min(seconds[operation], elapsed)
    return seconds


def copy_vector(numbers: int | None = None) -> RooflineOperation:
    """For the roofline, no arithmetic: it measures the bandwidth of the memory."""
    numbers = numbers or _vector_length()
    source = torch.rand(numbers, device=device())
    target = torch.empty_like(source)
    return RooflineOperation("copy", 0, 8 * numbers, lambda: target.copy_(source))


def add_vectors() -> RooflineOperation:
    """For the roofline: one addition for three numbers that are moved."""
    numbers = _vector_length()
    a, b = torch.rand(2, numbers, device=device())
    c = torch.empty_like(a)
    return RooflineOperation(
        "add", numbers, 12 * numbers, lambda: torch.add(a, b, out=c)
    )


def multiply_matrix(size: int, columns: int) -> RooflineOperation:
    """For the roofline: a square matrix times so many columns; one is a vector."""
    a = torch.rand(size, size, device=device())
    b = torch.rand(size, columns, device=device())
    c = torch.empty(size, columns, device=device())
    return RooflineOperation(
        "matrix-vector" if columns == 1 else f"matrix times {columns}",
        2 * size * size * columns,
        4 * (size * size + 2 * size * columns),
        lambda: torch.mm(a, b, out=c),
    )


def seconds_under_roof(
    operation: RooflineOperation, peak: float, bandwidth: float
) -> float:
    """The longer of the times for arithmetic and for moving bytes."""
    return max(operation.flops / peak, operation.bytes / bandwidth)


def draw_roofline(
    peak: float, bandwidth: float, measured: dict[RooflineOperation, float]
):
    """The two lines in billions of operations per second, and the measured points."""
    ridge = peak / bandwidth
    fig, ax = figure(height=3, alt="the roofline of this machine and operations on it")
    span = [0.03, ridge, max(2000, 10 * ridge)]
    roof = [min(peak, bandwidth * x) / 1e9 for x in span]
    ax.loglog(span, roof, color="black")
    for operation, seconds in measured.items():
        reached = operation.flops / seconds / 1e9
        ax.loglog([operation.intensity], [reached], "o", color=COLOURS[1])
        where = {"xytext": (8, -3), "textcoords": "offset points", "va": "top"}
        place = operation.intensity, reached
        ax.annotate(operation.name, place, color=COLOURS[1], **where)
    ax.text(span[0], 12 * roof[0], "the bytes decide")
    ax.text(span[2], 1.2 * roof[2], "the arithmetic decides", ha="right")
    lowest = min(roof[0], *(o.flops / s / 1e9 for o, s in measured.items()))
    ax.set_ylim(lowest / 3, 4 * roof[2])  # room for the label below the lowest point
    ax.set_xlabel("additions and multiplications for each byte")
    ax.set_ylabel("billions of them per second")
    return fig
