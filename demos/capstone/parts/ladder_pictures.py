"""The ladder drawn: what a rank holds and sends on each rung, found and predicted."""

from collections.abc import Sequence

from demos.capstone.parts.ladder_rungs import PLANS
from demos.capstone.parts.ladder_table import Rung
from sidebyside import COLOURS, figure

PARTS = "parameters", "gradients", "momentum", "activations"


def draw_ladder(rungs: Sequence[Rung]):
    """A bar for each rung: the memory of the rank that holds most, part by part.

    The black edge is what was predicted; beside the bar stands what a rank sends.
    """
    rungs = sorted(rungs, key=lambda rung: list(PLANS).index(rung.name))
    words = [f"{rung.name}: {_largest_of_rung(rung).memory:,}" for rung in rungs]
    alt = "bytes that a rank holds; " + "; ".join(words)
    fig, ax = figure(height=0.9 + 0.3 * len(rungs), stamp="measured here", alt=alt)
    widest = max(_largest_of_rung(rung).memory for rung in rungs) / 1000
    for place, rung in enumerate(rungs):
        cost, left = _largest_of_rung(rung), 0.0
        for part, colour in zip(PARTS, COLOURS, strict=False):
            wide = getattr(cost, part) / 1000
            label = part if place == 0 else None
            ax.barh(place, wide, left=left, color=colour, height=0.7, label=label)
            left += wide
        expected = max(p.memory for p in rung.predicted) / 1000
        ax.barh(place, expected, height=0.7, fill=False, edgecolor="black", lw=1.2)
        ax.text(
            left + widest / 80, place, _what_rung_sends(rung), va="center", fontsize=8
        )
    ax.set_yticks(range(len(rungs)), list(map(_name_of_rung, rungs)))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.45 * widest)
    ax.set_xlabel("thousands of bytes that the fullest rank holds")
    ax.legend(loc="lower right", fontsize=8, frameon=False)
    return fig


def _largest_of_rung(rung: Rung):
    return max((rank.cost for rank in rung.ranks), key=lambda cost: cost.memory)


def _name_of_rung(rung: Rung) -> str:
    ranks = len(rung.ranks)
    return f"{rung.name} ({ranks} rank{'s' * (ranks > 1)})"


def _what_rung_sends(rung: Rung) -> str:
    sent = max(rank.cost.sent for rank in rung.ranks) / 1000
    bubble = f", bubble {100 * rung.bubble:.0f} %" if rung.predicted[0].bubble else ""
    return (f"sends {sent:.0f}" if sent else "sends nothing") + bubble
