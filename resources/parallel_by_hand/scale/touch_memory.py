"""A plan's memory to touch: model, GPUs and split, by part, against the card."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from parallel_by_hand.scale.known_gpus import GPUS
from parallel_by_hand.scale.known_models import KNOWN_MODELS
from parallel_by_hand.scale.step_memory import ledgers_of_ranks
from parallel_by_hand.scale.training_plan import Strategy
from parallel_by_hand.sharding import touch_ledger
from parallel_by_hand.sharding.ledger import PRECISIONS, Ledger
from parallel_by_hand.sharding.ledger_pictures import draw_state_bars
from sidebyside.timeline.touchable import make_touchable

ROOM = {name: gpu.memory - gpu.reserve for name, gpu in GPUS.items()}
CHOICES: dict[str, Sequence] = {
    "model": list(KNOWN_MODELS),
    "card": list(GPUS),
    "data": [2**n for n in range(11)],
    "tensor": [1, 2, 4, 8],
    "pipeline": [1, 2, 4, 8, 16],
    "ZeRO": range(4),
    "precision": list(PRECISIONS),
    "recompute": ["none", "full"],
    "micro-batch": [1, 2, 4, 8],
}


def ledgers_of_settings(settings: Mapping) -> dict[str, Ledger]:
    """What a GPU of each rank of the pipeline holds, in bytes, with 1F1B.

    There are at least as many micro-batches as ranks. Attention is fused, and tensor
    ranks split the sequence as well.
    """
    model, _, data, tensor, pipeline, stage, precision, recompute, sequences = (
        settings[name] for name in CHOICES
    )
    strategy = Strategy(
        data, tensor, pipeline, stage, sequences,
        recomputation=recompute, sequence_parallel=True, fused_attention=True,
        state=PRECISIONS[precision],
    )  # fmt: skip
    forwards = range(pipeline, 0, -1)
    ledgers = ledgers_of_ranks(KNOWN_MODELS[model], strategy, forwards)
    return {f"rank {rank}": ledger for rank, ledger in enumerate(ledgers)}


def touch_memory(
    model: str,
    card: str,
    data: int,
    tensor: int,
    pipeline: int,
):
    """A figure of a plan's memory, by rank of the pipeline, that can be touched."""
    first = model, card, data, tensor, pipeline, 0, "mixed", "none", 1
    settings = dict(zip(CHOICES, first, strict=True))
    title = f"GB on a GPU of each rank of the pipeline, {model}"
    shapes = {
        name: {
            "layers": m.layers, "hidden": m.hidden, "sequence": m.sequence,
            "vocabulary": m.vocabulary, "tied": m.tied, "matrices": m.layer_matrices,
            "kv": m.kv_hidden, "mlp": m.mlp_hidden, "gated": int(m.gated),
            "experts": m.experts, "perToken": m.experts_per_token,
        }
        for name, m in KNOWN_MODELS.items()
    }  # fmt: skip
    return make_touchable(
        draw_state_bars(ledgers_of_settings(settings), title, ROOM[card]),
        [touch_ledger.HERE / "ledger_bars.js", Path(__file__).with_suffix(".js")],
        CHOICES,
        settings,
        parts=Ledger._fields,
        bytes=PRECISIONS,
        models=shapes,
        room=ROOM,
    )
