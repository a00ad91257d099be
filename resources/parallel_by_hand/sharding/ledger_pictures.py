"""The ledger as a picture, and the table of the ZeRO paper."""

from collections.abc import Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from parallel_by_hand.sharding.ledger import STRATEGIES, Ledger, StateBytes, state_bytes
from sidebyside import COLOURS, figure
from sidebyside.course.datasets import read_table

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


def draw_state_bars(states: Mapping[str, StateBytes | Ledger], title: str, room: float):
    """A bar for each strategy or rank, in GB: what it holds, by part, and the room."""
    words = [f"{name}: {sum(s) / 1e9:.1f} GB" for name, s in states.items()]
    words.append(f"room on the card: {room / 1e9:.1f} GB")
    fig, ax = figure(height=2.4, stamp="computed", alt=f"{title}; " + ", ".join(words))
    left = [0.0] * len(states)
    parts = next(iter(states.values()))._fields
    for part, colour in zip(parts, COLOURS, strict=False):
        wide = [getattr(state, part) / 1e9 for state in states.values()]
        ax.barh(list(states), wide, left=left, color=colour, height=0.75, label=part)
        left = [a + b for a, b in zip(left, wide, strict=True)]
    for place, total in enumerate(left):
        ax.text(total + 0.006 * max(left), place, f"{total:.1f} GB", va="center",
                fontsize=8)  # fmt: skip
    ax.axvline(room / 1e9, color="white", linewidth=3)
    ax.axvline(room / 1e9, color="black", linestyle="--")
    ax.text(room / 1e9, -0.55, "room", ha="center", fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel(title)
    fig.legend(loc="outside upper left", ncols=len(parts), fontsize=8, frameon=False)
    return fig
