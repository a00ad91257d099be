"""Pictures of lesson 12b: drift and agreement."""

from collections.abc import Sequence

import torch
from torch import Tensor

from sidebyside import COLOURS, figure


def draw_drift(drifts: dict[int, Tensor]):
    """How far the ranks are apart after each step, for each distance of meetings."""
    fig, ax = figure(height=2.6, alt="drift against steps: it grows between meetings")
    for (every, apart), colour in zip(drifts.items(), COLOURS, strict=False):
        ax.plot(apart, color=colour, lw=1.2)
        top = int(apart.argmax())
        text = f"every {every}" if every > 1 else "every step: 0"
        ax.annotate(
            text, (top, apart[top]), (4, 5), textcoords="offset points", color=colour
        )
    ax.set(xlabel="step", ylabel="distance to the mean model")
    ax.set_xlim(0, None)
    return fig


def draw_agreement(far: dict[str, tuple[Tensor, float]]):
    """Measured distances (points) and the line that falls by the predicted factor.

    `far` maps a label to (distances after each round, factor per round). The line
    begins at the middle of the points: a prediction of the slope.
    """
    fig, ax = figure(height=3, alt="distance to the mean against rounds, log scale")
    for (label, (measured, factor)), colour in zip(far.items(), COLOURS, strict=False):
        rounds = torch.arange(len(measured))
        middle = len(measured) // 2
        line = measured[middle] * factor ** (rounds - middle).double()
        shown = measured > 1e-7
        ax.semilogy(rounds, line, color=colour, lw=1)
        ax.semilogy(rounds[shown], measured[shown], "o", ms=3, color=colour)
        last = int((line > 2e-5).sum()) - 1  # the last point that can be seen
        ax.text(last + 0.5, float(line[last]), label, color=colour, va="center")
    ax.set(xlabel="round (points: measured, lines: predicted slope)")
    ax.set(ylabel="distance to the mean", ylim=(1e-5, None))
    return fig


def draw_values(of_ranks: Sequence[Sequence[float]]):
    """What each rank holds after each round: a row for a round, darker is more."""
    values = torch.tensor(of_ranks).T  # rounds x ranks
    fig, ax = figure(height=3, alt="what each rank holds, round by round")
    ax.imshow(values.clamp(max=3), cmap="Blues", aspect="auto", vmin=0, vmax=6)
    for row, numbers in enumerate(values.tolist()):
        for column, number in enumerate(numbers):
            ax.text(column, row, f"{number:.2f}", ha="center", va="center", fontsize=8)
    ax.set(xlabel="rank", ylabel="round", xticks=range(values.shape[1]))
    ax.set_yticks(range(len(values)))
    return fig
