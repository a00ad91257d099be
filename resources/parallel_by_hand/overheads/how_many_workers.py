"""The time that 1, 2, 3 ... workers take, measured and drawn."""

import math
from collections.abc import Iterable
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from parallel_by_hand.overheads.pieces_of_work import (
    CONTEXT,
    do_pieces,
    share_out_pieces,
)

if TYPE_CHECKING:
    from parallel_by_hand.overheads.cost_model import (
        Costs,  # each worker would import NumPy
    )

Times = dict[int, list[float]]


def time_crews(
    function,
    pieces: int,
    crews: Iterable[int],
    rounds: int = 3,
    kind: type = CONTEXT.Process,
) -> Times:
    """Seconds for each number of workers, once per round, in turn."""
    times: Times = {workers: [] for workers in crews}
    share_out_pieces(function, 1, 1, kind)  # the first process is slower to start
    for _ in range(rounds):
        for workers in times:
            times[workers].append(share_out_pieces(function, pieces, workers, kind))
    return times


def time_without_workers(function, pieces: int, rounds: int = 3) -> float:
    """Seconds for all pieces without any worker, here: b."""
    seconds = []
    for _ in range(rounds):
        start = perf_counter()
        do_pieces(function, range(pieces))
        seconds.append(perf_counter() - start)
    return median(seconds)


def plot_crews(times: Times, costs: "Costs", at_once: float, most: int):
    """Seconds against workers: measured, ideal, ceiling, and predicted beyond."""
    from sidebyside import COLOURS, figure  # each worker would import it, too: slow

    fig, ax = figure(height=3.2, alt="time against the number of workers")
    measured = [median(times[k]) for k in times]
    one, ks = measured[0], list(range(1, most + 1))
    at_once = max(1.0, at_once)  # a busy machine may be measured below
    lines = {
        "ideal: 1/k": ([one / k for k in ks], COLOURS[4], ":"),
        "predicted, with a core each": (list(map(costs.seconds, ks)), COLOURS[0], "--"),
    }
    if at_once < most:
        ceiling = [one / min(k, at_once) for k in ks]
        lines["the most this machine can do"] = ceiling, COLOURS[2], "-"
    lowest = -math.inf  # labels keep a distance, where lines end close together
    for name, (seconds, colour, style) in sorted(
        lines.items(), key=lambda line: line[1][0][-1]
    ):
        ax.plot(ks, seconds, color=colour, linestyle=style)
        lowest = max(seconds[-1], lowest + 0.08 * max(measured))
        ax.text(most + 0.1, lowest, f" {name}", color=colour, fontsize=8, va="center")
    ax.plot(list(times), measured, "o", color=COLOURS[1])
    highest = max(*measured, lowest, lines["ideal: 1/k"][0][0])
    ax.text(0.6, 1.1 * highest, "dots: measured", color=COLOURS[1], fontsize=8)
    ax.set(xlabel="workers k", ylabel="time (s)", xlim=(0.5, most * 1.4))
    ax.set_ylim(0, 1.25 * highest)
    ax.locator_params(axis="x", integer=True, nbins=10)
    return fig
