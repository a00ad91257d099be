"""The ledger as a picture, and the table of the ZeRO paper."""

from collections.abc import Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from parallel_by_hand.sharding.ledger import STRATEGIES, Ledger, StateBytes, state_bytes
from sidebyside import COLOURS, figure
from sidebyside.course.datasets import read_table
from sidebyside.timeline.figures import ink_colour

# Rajbhandari et al. 2020, Table 1: GB of ZeRO-1, 2 and 3 for each number of ranks.
PUBLISHED: dict[str, dict[int, tuple[str, ...]]] = {}
for _row in read_table("zero_table_1"):
    _model, _ranks, *_gigabytes = _row.values()
    PUBLISHED.setdefault(_model, {})[int(_ranks)] = tuple(_gigabytes)
NUMBERS = {"7.5B": 7_500_000_000, "128B": 128_000_000_000, "1T": 10**12}


def _as_in_the_paper(size: int) -> str:
    """Bytes in GB (10^9) as Table 1 prints them: cut off from 100 on, else rounded."""
    gigabytes = Decimal(size) / 10**9
    if gigabytes >= 100:
        return str(gigabytes.quantize(Decimal(1), ROUND_DOWN))
    places = Decimal("0.1") if gigabytes >= 2 else Decimal("0.01")
    text = str(gigabytes.quantize(places, ROUND_HALF_UP))
    return text.rstrip("0").rstrip(".")


def row_of_the_paper(model: str, ranks: int) -> tuple[str, ...]:
    """The ledger's formula for ZeRO-1, 2 and 3 in mixed precision, as in the paper."""
    totals = (state_bytes(NUMBERS[model], ranks, s).total for s in STRATEGIES[1:])
    return tuple(map(_as_in_the_paper, totals))


def draw_state_bars(states: Mapping[str, StateBytes | Ledger], title: str):
    """A bar for each strategy, or each rank: bytes of what it holds, by part, in GB."""
    words = [f"{name}: {sum(s) / 1e9:.1f} GB" for name, s in states.items()]
    largest = max(map(sum, states.values())) / 1e9
    fig, ax = figure(height=2.4, stamp="computed", alt=f"{title}; " + ", ".join(words))
    for place, state in enumerate(states.values()):
        left = 0.0
        for part, size, colour in zip(state._fields, state, COLOURS, strict=False):
            wide = size / 1e9
            ax.barh(place, wide, left=left, color=colour, height=0.75)
            if wide > 0.09 * largest:
                ink = ink_colour(colour)
                ax.text(left + wide / 2, place, part, color=ink, ha="center",
                        va="center", fontsize=8)  # fmt: skip
            left += wide
        after = left + 0.006 * largest
        ax.text(after, place, f"{left:.1f} GB", va="center", fontsize=8)
    ax.set_yticks(range(len(states)), list(states))
    ax.invert_yaxis()
    ax.set_xlabel(title)
    return fig
