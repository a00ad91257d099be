"""Pictures of lesson 14a: cuts, and the memory of ranks."""

from parallel_by_hand.model_parallel.networks_to_cut import MeteredCut
from sidebyside import COLOURS, Timeline, figure

KINDS = ("parameters", "gradients", "optimiser", "activations")


def draw_cuts(front: list[MeteredCut], back: list[MeteredCut]):
    """Bars: bytes that cross at each cut; above, the share of parameters before it."""
    names = list(dict.fromkeys(cut.network for cut in front))
    fig, axes = figure(
        1,
        len(names),
        height=3,
        sharey=True,
        alt="bytes that cross at each cut of three networks",
        width_ratios=[sum(c.network == name for c in front) for name in names],
    )
    for ax, name in zip(axes, names, strict=True):
        pairs = [p for p in zip(front, back, strict=True) if p[0].network == name]
        kilobytes = [(a.sent + b.sent) / 1000 for a, b in pairs]
        ax.bar(range(len(pairs)), kilobytes, width=0.6, color=COLOURS[0])
        for place, (a, b) in enumerate(pairs):
            share = round(100 * a.parameters / (a.parameters + b.parameters))
            label = ">99 %" if share == 100 else f"{share} %"  # a layer lies behind
            ax.text(place, kilobytes[place] + 4, label, ha="center", fontsize=8)
        ax.set_xticks(range(len(pairs)), [a.after for a, _ in pairs], rotation=45)
        ax.set_title(name, fontsize=10)
    axes[0].set_ylabel("kB that cross per step")
    words = "the layer before the cut; above, the share of the parameters before it"
    axes[len(names) // 2].set_xlabel(words)
    return fig


def draw_memory_of_ranks(held: dict[str, dict[str, int]], budget: int):
    """A bar for each device: what its bytes are for, and the budget as a line."""
    fig, ax = figure(height=2.4, alt="memory of each device, by what it is for")
    for row, memory in enumerate(held.values()):
        left = 0.0
        for kind, colour in zip(KINDS, COLOURS, strict=False):
            width = memory[kind] / 1e6
            ax.barh(row, width, left=left, color=colour, edgecolor="white")
            if row == 0:
                ax.text(left + width / 2, -0.55, kind, ha="center", color=colour)
            left += width
    rows = [-0.45, len(held) - 0.5]
    ax.plot([budget / 1e6] * 2, rows, color="black", linestyle="--")
    ax.text(budget / 1e6 + 0.2, len(held) - 1, "budget", va="center")
    ax.set_yticks(range(len(held)), list(held))
    ax.set_ylim(len(held) - 0.5, -0.9)
    ax.set(xlabel="MB", xticks=range(0, 25, 5))
    return fig


def idle_share_of_lanes(timeline: Timeline) -> float:
    """The share of all lanes' time in which no work but `wait` is recorded.

    Time runs from the first span's start to the last span's end.
    """
    work = [span for span in timeline.spans if span.name != "wait"]
    length = max(s.end for s in work) - min(s.start for s in work)
    busy = sum(span.duration for span in work)
    return 1 - busy / (length * len({span.lane for span in work}))
