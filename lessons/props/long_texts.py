"""Pictures of lesson 16c: which rank compares which chunks, and where keys are."""

from collections.abc import Mapping

from parallel_by_hand.context_parallel.chunks import Deal, pairs_to_compute
from sidebyside import COLOURS, figure
from sidebyside.timeline.figures import light_colour


def draw_work(deals: Mapping[str, Deal], ranks: int = 4):
    """A grid for each deal: queries down, keys across, each row in its rank's colour.

    The number of a row's rank stands in its boxes; what lies ahead is white. Below:
    how many pairs of a query and a key each rank compares; a chunk with another is 1.
    """
    words, works = [], {}
    for name, deal in deals.items():
        rows = pairs_to_compute(deal, ranks, 2000 * ranks)  # 1,000 positions in a chunk
        works[name] = [f"{sum(row) / 1e6:.0f}" for row in rows]
        words.append(f"{name}: ranks 0 to {ranks - 1} do {', '.join(works[name])}")
    alt = "chunks of queries with chunks of keys; pairs of chunks compared: "
    shape = {"columns": len(deals), "squeeze": False}
    fig, axes = figure(height=3, stamp="computed", alt=alt + "; ".join(words), **shape)
    for ax, (name, deal) in zip(axes[0], deals.items(), strict=True):
        for rank in range(ranks):
            for chunk in deal(rank, ranks):
                _draw_row(ax, chunk, rank)
        work = ", ".join(works[name])
        ax.set_title(f"{name}: ranks 0 to {ranks - 1} do {work}", fontsize=10)
        ax.set(xlim=(0, 2 * ranks), ylim=(2 * ranks, 0), aspect="equal")
        ax.set(xticks=(), yticks=(), xlabel="chunks of keys", ylabel="of queries")
    return fig


def _draw_row(ax, chunk: int, rank: int) -> None:
    from matplotlib.patches import Polygon

    for other in range(chunk + 1):
        corners = [(other, chunk), (other, chunk + 1), (other + 1, chunk + 1)]
        if other < chunk:
            corners.append((other + 1, chunk))
        colour = light_colour(COLOURS[rank])
        ax.add_patch(Polygon(corners, facecolor=colour, edgecolor="black", lw=0.7))
        shift = 0.5 if other < chunk else 0.32
        middle = other + shift, chunk + 1 - shift
        ax.text(*middle, str(rank), ha="center", va="center", fontsize=8)


def draw_journey(ranks: int = 4, back: bool = False):
    """Whose keys and values each rank holds in each step.

    With `back`, whose queries have added to their gradients, and the way home.
    """
    steps = ranks + back
    alt = "keys of rank r are on rank r + t in step t, counted round the ring"
    if back:
        alt += "; each rank adds to their gradients, and one more step takes them home"
    fig, ax = figure(height=0.42 * ranks + 0.5, stamp="computed", alt=alt)
    for rank in range(ranks):
        ax.text(-0.05, rank, f"rank {rank}", ha="right", va="center")
        for step in range(steps):
            home = (rank - step) % ranks
            text = f"keys of {home}"
            if back:
                seen = [str((home + s) % ranks) for s in range(min(step + 1, ranks))]
                text = f"{text}: {'+'.join(seen)}"
            if step == ranks:
                text = f"gradients of {home}"
            _draw_piece(ax, step, rank, text, light_colour(COLOURS[home]))
    for step in range(steps):
        name = "home" if step == ranks else f"step {step}"
        ax.text(step + 0.47, -0.75, name, ha="center", va="center")
    ax.set(xlim=(-0.4, steps), ylim=(ranks - 0.4, -1))
    ax.set_axis_off()
    return fig


def _draw_piece(ax, step: int, rank: int, text: str, colour: str) -> None:
    from matplotlib.patches import Rectangle

    box = Rectangle((step, rank - 0.4), 0.94, 0.8, facecolor=colour, edgecolor="black")
    ax.add_patch(box)
    ax.text(step + 0.47, rank, text, ha="center", va="center", fontsize=8)
