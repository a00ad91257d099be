"""Pictures of lesson 16d: how busy experts are, and the way of a token."""

import torch
from torch import Tensor

from parallel_by_hand.experts.routing import dispatch
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import GREY, NOBODYS, ink_colour


def draw_shares(shares: dict[str, Tensor]):
    """A panel for each way to balance, with a bar for each expert's share."""
    alt = "; ".join(
        f"{way}: " + ", ".join(f"{100 * share:.0f} %" for share in of_experts.tolist())
        for way, of_experts in shares.items()
    )
    fig, axes = figure(
        columns=len(shares), width=2.7 * len(shares), height=2.2, sharey=True,
        squeeze=False, alt=f"share of each expert in all choices. {alt}",
    )  # fmt: skip
    for ax, (way, of_experts) in zip(axes[0], shares.items(), strict=True):
        percent = [100 * share for share in of_experts.tolist()]
        ax.bar(range(len(percent)), percent, color=COLOURS[0], edgecolor="black")
        ax.axhline(100 / len(percent), color=COLOURS[1], linestyle="--")
        ax.set(title=f"balanced by {way}", xlabel="expert", xticks=range(len(percent)))
    axes[0][0].set_ylabel("% of the choices")
    axes[0][0].text(7.5, 14, "fair", color=COLOURS[1], ha="right")
    return fig


CHOSEN = torch.tensor([[0, 2, 3, 0], [2, 1, 2, 2]])
"""Of each rank's four tokens the one expert that it visits; rank 0 has 0 and 1."""


def draw_visit():
    """Four tokens on each of two ranks, from the text to their experts and home."""
    sent, arrived = [], [[], []]
    for rank, chosen in enumerate(CHOSEN):
        places, _ = dispatch(chosen[:, None], 4)
        tokens = [("abcdefgh"[4 * rank + int(p)], int(chosen[p])) for p in places]
        sent.append(tokens)
        for token in tokens:
            arrived[token[1] // 2].append(token)
    text = [
        [("abcdefgh"[4 * rank + i], int(e)) for i, e in enumerate(chosen)]
        for rank, chosen in enumerate(CHOSEN)
    ]
    at_experts = [sorted(tokens, key=lambda token: token[1]) for tokens in arrived]
    columns = {
        "in the text": text,
        "sorted by\nexpert": sent,
        "after the\nall-to-all": arrived,
        "sorted by\nexpert again": at_experts,
        "home": text,
    }
    alt = "; ".join(
        f"{' '.join(name.split())}: "
        + " and ".join("".join(letter for letter, _ in rank) for rank in ranks)
        for name, ranks in columns.items()
    )
    fig, ax = figure(height=2.5, stamp="", alt=f"tokens of ranks 0 and 1, {alt}")
    for place, (name, ranks) in enumerate(columns.items()):
        ax.text(place, -0.55, name, ha="center", va="bottom", color=GREY)
        for rank, tokens in enumerate(ranks):
            _draw_tokens(ax, place, rank, tokens)
    for rank in range(2):
        about = f"rank {rank}\nexperts {2 * rank}, {2 * rank + 1}"
        ax.text(-0.55, 1.6 * rank, about, ha="right", va="center")
    ax.set(xlim=(-1.35, 4.6), ylim=(2.1, -1.1))
    ax.set_axis_off()
    return fig


def _draw_tokens(ax, column: int, rank: int, tokens: list[tuple[str, int]]) -> None:
    """A box for each token, in the colour of its expert's rank, with both names."""
    from matplotlib.patches import Rectangle

    wide = 0.16
    for place, (letter, expert) in enumerate(tokens):
        left = column + wide * (place - len(tokens) / 2)
        colour = COLOURS[expert // 2]
        corner = left, 1.6 * rank - 0.4
        ax.add_patch(Rectangle(corner, wide, 0.8, facecolor=colour, edgecolor=NOBODYS))
        ax.text(
            left + wide / 2, 1.6 * rank, f"{letter}\n{expert}",
            color=ink_colour(colour), ha="center", va="center", fontsize=8,
        )  # fmt: skip
