"""What a rung will cost, worked out before it is climbed: lessons 10 to 17's formulas.

All sizes are in bytes, of one rank. The arithmetic is lesson 10b's (a ring sends
2 (N - 1) / N of a tensor), 15's (a timetable's bubble, the micro-batches kept), 16's
(four all-reduces for a block) and 17's (the ledger of each stage of ZeRO).
"""

from typing import NamedTuple

from parallel_by_hand.capstone.language_model import ModelSize
from parallel_by_hand.capstone.text_batches import text_alphabet
from parallel_by_hand.collectives.all_reduce_costs import messages_and_bytes
from parallel_by_hand.pipeline.schedule_rules import bubble, peak_activations, timetable
from parallel_by_hand.pipeline.schedules import Schedule
from parallel_by_hand.sharding.ledger import SHARDED, StateBytes, state_bytes

TOKEN = 8  # bytes: an int64


class RungCost(NamedTuple):
    """What one rank sends in a step, holds at the most, and its share of idle time."""

    sent: int
    parameters: int
    gradients: int
    momentum: int
    activations: int
    bubble: float = 0.0

    @property
    def state(self) -> int:
        return sum(self[1:4])

    @property
    def memory(self) -> int:
        return self.state + self.activations


class RungPlan(NamedTuple):
    """How a rung cuts the model and the batch, in numbers."""

    data: int = 1
    tensor: int = 1
    zero: str = ""  # a name of 17's ledger; "": nothing travels between replicas
    sequence: bool = False
    schedule: Schedule | None = None  # one of lesson 15's
    accumulate: int = 1
    context: int = 1  # ranks that share each excerpt, and gather its keys and values
    hybrid: int = 1  # groups of data-parallel ranks that hold all shards each

    @property
    def replicas(self) -> int:
        """Ranks with the same part of the model: its gradients are summed over them."""
        return self.data * self.context

    @property
    def shard_ranks(self) -> int:
        """Those of them that share out what ZeRO shards."""
        return self.replicas // self.hybrid

    @property
    def pipeline(self) -> int:
        return len(self.schedule) if self.schedule else 1

    @property
    def microbatches(self) -> int:
        return len(self.schedule[0]) // 2 if self.schedule else self.accumulate


def numbers_of_rung_layers(size: ModelSize, tensor: int = 1) -> list[tuple[int, int]]:
    """Parameters of each layer on a tensor rank: those held whole, and those split."""
    h, words = size.width, len(text_alphabet())
    attention = 3 * h, (4 * h * h + 3 * h) // tensor
    mlp = 3 * h, (8 * h * h + 4 * h) // tensor
    embedding, head = (words + size.length) * h, 2 * h + (h + 1) * words
    return [(embedding, 0), *size.blocks * [attention, mlp], (head, 0)]


def _layers_of_rank(size: ModelSize, plan: RungPlan, stage: int) -> range:
    """The layers of one stage, as lesson 15 cuts: equally many each, or one more."""
    layers = 2 * size.blocks + 2
    return range(layers * stage // plan.pipeline, layers * (stage + 1) // plan.pipeline)


def _kept_by_layers(
    size: ModelSize, plan: RungPlan, layers: range, rows: int, item: int
) -> int:
    """Bytes that autograd keeps of so many rows in these layers, and of the loss.

    A norm keeps its input and two numbers for each position; a pair keeps what enters
    it, and then what this rank's heads or neurons make of it. Context parallel keeps no
    scores: it computes them again.
    """
    h, a, s, t = size.width, size.heads, size.length // plan.context, plan.tensor
    words, positions = len(text_alphabet()), rows * s
    own = positions // t if plan.sequence else positions
    norm, entered = own * (h + 2) * item, positions * h * item
    mask = s * s if t == 1 else 0  # a bool for each pair of places
    attention = norm + entered + positions * (4 * h + a * s) // t * item + mask
    if plan.context > 1:  # queries, gathered keys and values, mixed twice, log-sums
        attention = norm + entered + positions * ((3 + 2 * plan.context) * h + a) * item
    mlp = norm + entered + positions * 8 * h // t * item
    scores = own * (2 * h + 2 + words) * item + own * TOKEN + item  # head and loss
    kinds = [own * TOKEN, *size.blocks * [attention, mlp], scores]
    return sum(kinds[layer] for layer in layers)


def _activations(size: ModelSize, plan: RungPlan, batch: int, item: int):
    """For each stage: the micro-batches that its schedule keeps, times one of them."""
    rows = batch // plan.data // plan.microbatches
    kept = peak_activations(plan.schedule) if plan.schedule else [1]
    return [
        times
        * _kept_by_layers(size, plan, _layers_of_rank(size, plan, stage), rows, item)
        for stage, times in enumerate(kept)
    ]


def _ring_bytes(ranks: int, size: int) -> int:
    """What a rank sends for an all-reduce: lesson 10b."""
    return round(messages_and_bytes("ring", ranks, size)[1])


def _sent_inside(
    size: ModelSize, plan: RungPlan, stage: int, batch: int, item: int
) -> int:
    """Bytes of tensor, context and pipeline parallel: they depend on the batch."""
    layers = _layers_of_rank(size, plan, stage)
    pairs = sum(0 < layer < 2 * size.blocks + 1 for layer in layers)
    hidden = batch // plan.data * size.length * size.width * item
    sent = 2 * pairs * _ring_bytes(plan.tensor, hidden)  # one forward, one backward
    # keys and values of a block: gathered, and their gradients scattered
    sent += pairs // 2 * 2 * _ring_bytes(plan.context, hidden)
    if plan.sequence:  # gradients of what all ranks hold whole
        whole = sum(numbers for numbers, _ in numbers_of_rung_layers(size, plan.tensor))
        sent += _ring_bytes(plan.tensor, whole * item)
    neighbours = (stage > 0) + (stage < plan.pipeline - 1)
    return sent + neighbours * hidden


def sent_between_replicas(plan: RungPlan, units: list[int], item: int) -> int:
    """A rung's bytes of data parallel: an all-reduce has 2 halves, ZeRO-3 sends 3.

    Hybrid sharding all-reduces each shard of the gradients over the groups as well.
    """
    if not plan.zero:
        return 0
    ranks, sent = plan.shard_ranks, 0
    halves = 3 if plan.zero == "ZeRO-3" else 2
    for size in (_padded_for_rung(n, ranks) * item for n in units):
        sent += _ring_bytes(ranks, size) * halves // 2
        sent += _ring_bytes(plan.hybrid, size // ranks)
    return sent


def _padded_for_rung(numbers: int, ranks: int) -> int:
    return -(-numbers // ranks) * ranks


def predict_rung(
    size: ModelSize, plan: RungPlan, batch: int = 8, item: int = 4
) -> list[RungCost]:
    """A `RungCost` for each stage of the pipeline: all its ranks cost the same.

    `item` is the bytes of a number. ZeRO-2 and 3 cut each layer into shards, the
    others all layers together.
    """
    activations = _activations(size, plan, batch, item)
    idle = bubble(timetable(plan.schedule, 1, 2)) if plan.schedule else 0.0
    costs = []
    for stage, kept in enumerate(activations):
        layers = _layers_of_rank(size, plan, stage)
        numbers = numbers_of_rung_layers(size, plan.tensor)
        units = [sum(numbers[layer]) for layer in layers]
        by_layer = plan.zero in ("ZeRO-2", "ZeRO-3")
        largest = max(_padded_for_rung(n, plan.shard_ranks) for n in units)
        borrowed = largest * item if plan.zero == "ZeRO-3" else 0
        units = units if by_layer else [sum(units)]
        held = state_of_rung_units(plan, units, item)
        sent = _sent_inside(size, plan, stage, batch, item)
        sent += sent_between_replicas(plan, units, item)
        parameters = held.parameters + borrowed
        costs.append(RungCost(sent, parameters, *held[1:], kept, idle))
    return costs


def state_of_rung_units(plan: RungPlan, units: list[int], item: int) -> StateBytes:
    """A rung's ledger (17) for SGD with momentum: three numbers for each parameter."""
    of_each = StateBytes(item, item, item)
    name = plan.zero if plan.zero in SHARDED else "DDP"
    states = [state_bytes(n, plan.shard_ranks, name, of_each) for n in units]
    return StateBytes(*(sum(column) for column in zip(*states, strict=True)))
