"""All the ways in which a cluster could train a model, in a fixed order.

The degrees multiply to the number of GPUs. Micro-batches are powers of two, or
three times one of the first four. The interleaved schedule has the fewest chunks that
cut a rank's layers evenly. GPipe keeps more than 1F1B, and waits less for messages.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from parallel_by_hand.scale.training_plan import (
    RECOMPUTATIONS,
    Cluster,
    Model,
    Strategy,
    why_impossible,
)
from parallel_by_hand.sharding.ledger import MIXED, StateBytes


class Ways(NamedTuple):
    """What else legal strategies may use: fused attention or plain, ranks that share
    a sequence, hybrid sharding (shards within a node, copies over nodes), and chunks
    that do not cut a rank's layers evenly. `state` is in bytes for each number.
    """

    fused_attention: bool = True
    contexts: tuple[int, ...] = (1, 2, 4, 8, 16)
    hybrid: bool = True
    uneven: bool = True
    state: StateBytes = MIXED


SHORT = 16_384  # tokens: no sequence that is shorter needs several ranks
TODAY = Ways()


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _splits_of(gpus: int) -> Iterator[tuple[int, int, int]]:
    """All (data, tensor, pipeline) whose product is `gpus`."""
    divisors = _divisors(gpus)
    for tensor in divisors:
        for pipeline in divisors:
            if gpus % (tensor * pipeline) == 0:
                yield gpus // (tensor * pipeline), tensor, pipeline


def fewest_chunks(layers: int, pipeline: int) -> int:
    """The fewest thin stages above one that cut a rank's layers evenly, or 1."""
    own = layers // pipeline
    if layers % pipeline:
        return 1
    return next((c for c in range(2, own + 1) if own % c == 0), 1)


def _strategies_of_split(
    model: Model,
    cluster: Cluster,
    batch: int,
    ways: Ways,
    split: tuple[int, int, int],
) -> Iterator[Strategy]:
    """All that is left to choose once the degrees are."""
    replicas, tensor, pipeline = split
    chunks = fewest_chunks(model.layers, pipeline)
    schedules = [("1f1b", chunks)]
    if pipeline > 1:
        thin = {chunks} | ({2, 4, model.layers // pipeline} if ways.uneven else set())
        schedules += [("gpipe", chunks)]
        schedules += [("interleaved", number) for number in sorted(thin - {0, 1})]
    contexts = ways.contexts if model.sequence > SHORT else (1,)
    for context in (number for number in contexts if replicas % number == 0):
        data = replicas // context
        powers = {2**k for k in range(batch.bit_length())}
        sizes = [n for n in sorted(powers | {3, 6, 12, 24}) if batch % (data * n) == 0]
        for size, (schedule, thin), recomputation, stage, sequence, expert in product(
            sizes or [1],
            schedules,
            RECOMPUTATIONS,
            range(4) if replicas > 1 else (0,),
            (False, True) if tensor > 1 else (False,),
            _divisors(model.experts),
        ):
            hybrid = ways.hybrid and stage > 1 and cluster.nodes > 1
            for groups in (1, cluster.nodes) if hybrid else (1,):
                yield Strategy(
                    data, tensor, pipeline, stage, size, schedule, recomputation,
                    sequence, overlap=True, chunks=thin, state=ways.state,
                    fused_attention=ways.fused_attention, context=context,
                    hybrid=groups, expert=expert,
                )  # fmt: skip


def legal_strategies(
    model: Model, cluster: Cluster, batch: int, ways: Ways = TODAY
) -> Iterator[Strategy]:
    """Every strategy that can run, whether or not it fits into memory."""
    for split in _splits_of(cluster.gpus):
        for strategy in _strategies_of_split(model, cluster, batch, ways, split):
            if not why_impossible(model, cluster, strategy, batch):
                yield strategy


def why_no_strategy(
    model: Model, cluster: Cluster, batch: int, wanted: dict[str, int] | None = None
) -> str:
    """A sentence that says why nothing is legal; "" if something is."""
    wanted, reasons = wanted or {}, []
    for split in _splits_of(cluster.gpus):
        names = "data", "tensor", "pipeline"
        degrees: dict[str, int] = dict(zip(names, split, strict=True))
        if any(degrees[degree] != count for degree, count in wanted.items()):
            continue
        for strategy in _strategies_of_split(model, cluster, batch, TODAY, split):
            problem = why_impossible(model, cluster, strategy, batch)
            if not problem:
                return ""
            plain = strategy.stages, strategy.tensor, strategy.hybrid
            reasons.append((*plain, problem))
    if not reasons:
        asked = " x ".join(f"{degree} {count}" for degree, count in wanted.items())
        verb = "is not" if len(wanted) == 3 else "does not divide"
        return f"{asked} {verb} {cluster.gpus} GPUs"
    return min(reasons)[-1]  # of the smallest split: the plainest reason
