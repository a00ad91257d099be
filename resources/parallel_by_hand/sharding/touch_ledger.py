"""The ledger to touch: what each rank holds of the training state, against a card."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from parallel_by_hand.sharding.ledger import (
    PRECISIONS,
    STRATEGIES,
    StateBytes,
    state_bytes,
)
from parallel_by_hand.sharding.ledger_pictures import draw_state_bars
from sidebyside.course.datasets import read_table
from sidebyside.timeline.touchable import make_touchable

HERE = Path(__file__).parent
MEMORY = {row["name"]: 1e9 * float(row["memory_gb"]) for row in read_table("gpus")}
CHOICES: dict[str, Sequence] = {
    "billion parameters": [0.1, 0.5, 1, 3, 7.5, 13, 32, 70, 128, 175, 405, 1000],
    "ranks": [2**n for n in range(11)],
    "precision": list(PRECISIONS),
    "card": list(MEMORY),
}


def states_of_settings(settings: Mapping) -> dict[str, StateBytes]:
    """What a rank holds, in bytes, in DDP and in each stage of ZeRO."""
    billions, ranks, precision, _ = (settings[name] for name in CHOICES)
    numbers = round(billions * 1e9)
    each = PRECISIONS[precision]
    return {name: state_bytes(numbers, ranks, name, each) for name in STRATEGIES}


def touch_ledger(billions: float, ranks: int):
    """A figure of the training state of a rank in each strategy, to be touched."""
    first = billions, ranks, "mixed", "A100"
    settings = dict(zip(CHOICES, first, strict=True))
    title = f"GB on each of {ranks} ranks, {billions} billion parameters"
    return make_touchable(
        draw_state_bars(states_of_settings(settings), title, MEMORY["A100"]),
        [HERE / "ledger_bars.js", HERE / "touch_ledger.js"],
        CHOICES,
        settings,
        parts=StateBytes._fields,
        bytes=PRECISIONS,
        strategies=STRATEGIES,
        memory=MEMORY,
    )
