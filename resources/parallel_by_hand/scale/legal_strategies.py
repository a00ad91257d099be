"""All the ways in which a cluster could train a model, in a fixed order.

The degrees multiply to the number of GPUs. Micro-batches are powers of two, and the
interleaved schedule has the fewest chunks that cut a rank's layers evenly. GPipe keeps
more than 1F1B, and waits less for messages.
"""

from collections.abc import Iterator
from dataclasses import replace
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
    """What may be tried besides the degrees: fused attention or plain, ranks that share
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
    for context in ways.contexts if model.sequence > SHORT else (1,):
        if replicas % context == 0:
            for strategy in _strategies_of_replicas(
                model, batch, ways, replicas // context, tensor, pipeline
            ):
                shared = replace(strategy, context=context)
                groups = shared.gpus // cluster.gpus_per_node
                for expert in _divisors(model.experts):
                    routed = replace(shared, expert=expert)
                    yield routed
                    if ways.hybrid and strategy.shard_stage > 1 and groups > 1:
                        yield replace(routed, hybrid=groups)


def _strategies_of_replicas(
    model: Model, batch: int, ways: Ways, data: int, tensor: int, pipeline: int
) -> Iterator[Strategy]:
    chunks = fewest_chunks(model.layers, pipeline)
    schedules = [("1f1b", chunks)]
    if pipeline > 1:
        thin = {chunks} | ({2, 4, model.layers // pipeline} if ways.uneven else set())
        schedules += [("gpipe", chunks)]
        schedules += [("interleaved", number) for number in sorted(thin - {0, 1})]
    sizes = [2**k for k in range(batch.bit_length()) if batch % (data * 2**k) == 0]
    for micro_batch in sizes or [1]:
        for schedule, chunks in schedules:
            for recomputation in RECOMPUTATIONS:
                for stage in range(4) if data > 1 else (0,):
                    for sequence in (False, True) if tensor > 1 else (False,):
                        yield Strategy(
                            data, tensor, pipeline, stage, micro_batch, schedule,
                            recomputation, sequence, overlap=True, chunks=chunks,
                            state=ways.state, fused_attention=ways.fused_attention,
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
    """A sentence that says why nothing is legal; "" if something is.

    `wanted` fixes some of the degrees "data", "tensor" and "pipeline".
    """
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
            reasons.append((strategy.stages, strategy.tensor, problem))
    if not reasons:
        asked = " x ".join(f"{degree} {count}" for degree, count in wanted.items())
        verb = "is not" if len(wanted) == 3 else "does not divide"
        return f"{asked} {verb} {cluster.gpus} GPUs"
    return min(reasons)[-1]  # of the smallest split: the plainest reason
