"""The messages of a step: the bytes that a GPU sends, over which link, and how long.

A collective is lesson 10b's ring. GPUs are numbered so that those of a tensor group
stand side by side, then the replicas, then the stages of the pipeline: whoever talks
most is nearest. A group that does not fit into a node is as slow as its slowest link.
"""

from typing import NamedTuple

from parallel_by_hand.collectives.all_reduce_costs import (
    messages_and_bytes,
    predicted_seconds,
)
from parallel_by_hand.scale.step_memory import (
    hidden_numbers,
    layers_of_stages,
    numbers_of_ranks,
    unsplit_numbers_in_memory,
)
from parallel_by_hand.scale.training_plan import Cluster, Link, Model, Strategy

LOSS_NUMBERS = 3  # of each position: 16b's maximum, sum, and the right word's logit


class StepMessage(NamedTuple):
    """What one GPU sends, and the seconds that it takes."""

    size: float = 0.0
    seconds: float = 0.0

    def times(self, count: float) -> "StepMessage":
        return StepMessage(count * self.size, count * self.seconds)


def link_of(group: str, cluster: Cluster, strategy: Strategy) -> str:
    """ "within" a node or "between" nodes: the link of the group's slowest neighbours.

    `group` is "tensor", "data" or "pipeline".
    """
    reach = {
        "tensor": strategy.tensor,
        "data": strategy.tensor * strategy.data,
        "pipeline": strategy.gpus,
    }
    return "within" if reach[group] <= cluster.gpus_per_node else "between"


def link_cost_of(group: str, cluster: Cluster, strategy: Strategy) -> Link:
    within = link_of(group, cluster, strategy) == "within"
    return cluster.link_within if within else cluster.link_between


def _ring_seconds(ranks: int, size: float, link: Link) -> StepMessage:
    """An all-reduce of `size` bytes: a reduce-scatter, then an all-gather."""
    _, sent = messages_and_bytes("ring", ranks, size)
    seconds = predicted_seconds("ring", ranks, size, link.alpha, 1 / link.bandwidth)
    return StepMessage(sent, seconds)


def _half_ring(ranks: int, size: float, link: Link) -> StepMessage:
    """A reduce-scatter, or an all-gather, of `size` bytes."""
    return _ring_seconds(ranks, size, link).times(1 / 2)


def tensor_messages(
    model: Model, cluster: Cluster, strategy: Strategy
) -> tuple[StepMessage, StepMessage]:
    """Of one layer and one micro-batch: forward and backward.

    Each way two all-reduces of s b h numbers (16a), or as much in halves (16b's
    sequence parallel, which gathers the inputs of both pairs once more for backward).
    """
    size = strategy.state.parameters * hidden_numbers(model, strategy)
    link = link_cost_of("tensor", cluster, strategy)
    pair = _ring_seconds(strategy.tensor, size, link)
    backward = 2 + (1 if strategy.sequence_parallel else 0)
    backward += 2 if strategy.recomputation == "full" else 0
    return pair.times(2), pair.times(backward)


def embedding_messages(
    model: Model, cluster: Cluster, strategy: Strategy
) -> StepMessage:
    """Forward of a micro-batch on the first stage: words' vectors are summed (16b)."""
    size = strategy.state.parameters * hidden_numbers(model, strategy)
    link = link_cost_of("tensor", cluster, strategy)
    return _ring_seconds(strategy.tensor, size, link).times(
        1 if model.vocabulary else 0
    )


def head_messages(
    model: Model, cluster: Cluster, strategy: Strategy
) -> tuple[StepMessage, StepMessage]:
    """The last stage: the loss forward, the gradient of its input backward (16b)."""
    link = link_cost_of("tensor", cluster, strategy)
    numbers = hidden_numbers(model, strategy) if model.vocabulary else 0
    positions = 4 * numbers / model.hidden  # bytes: float32
    loss = _ring_seconds(strategy.tensor, positions, link).times(
        LOSS_NUMBERS if numbers else 0
    )
    size = strategy.state.parameters * numbers
    return loss, _ring_seconds(strategy.tensor, size, link).times(1 if numbers else 0)


def stage_message(model: Model, cluster: Cluster, strategy: Strategy) -> StepMessage:
    """What a stage hands on: s b h numbers, a rank's own if the sequence is split."""
    size = strategy.state.parameters * hidden_numbers(model, strategy)
    size /= strategy.tensor if strategy.sequence_parallel else 1
    alpha, bandwidth = link_cost_of("pipeline", cluster, strategy)
    return StepMessage(size, alpha + size / bandwidth)


def tied_messages(model: Model, cluster: Cluster, strategy: Strategy) -> StepMessage:
    """First and last stage sum up their gradients of the tied table, once in a step."""
    if strategy.pipeline == 1 or not model.vocabulary:
        return StepMessage()
    table = -(-model.vocabulary // strategy.tensor) * model.hidden
    link = link_cost_of("pipeline", cluster, strategy)
    return _ring_seconds(2, strategy.state.gradients * table, link)


class DataMessages(NamedTuple):
    """Data parallel's messages on one rank of the pipeline, by when they are sent.

    `forward` and `backward` belong to every micro-batch; `once` to a step, between the
    last backward and the update; `after` follows the update.
    """

    forward: StepMessage = StepMessage()
    backward: StepMessage = StepMessage()
    once: StepMessage = StepMessage()
    after: StepMessage = StepMessage()


def data_messages(
    model: Model, cluster: Cluster, strategy: Strategy, rank: int
) -> DataMessages:
    """DDP's all-reduce, or the halves into which ZeRO takes it apart (17a, 17b)."""
    numbers = numbers_of_ranks(model, strategy)[rank]
    padded = strategy.data * -(-numbers // strategy.data)
    link = link_cost_of("data", cluster, strategy)
    units = _units_of_rank(model, strategy, rank)  # each is a message of its own

    def half(size: float, units: int) -> StepMessage:
        return _half_ring(strategy.data, size / units, link).times(units)

    apart = units if strategy.overlap else 1
    stage, state = strategy.shard_stage, strategy.state
    if stage <= 1:
        scatter = half(padded * state.gradients, apart)
        gather = half(padded * state.parameters, 1)
        if stage == 0:  # gradients travel both ways
            gather = half(padded * state.gradients, apart)
            both = StepMessage(
                scatter.size + gather.size, scatter.seconds + gather.seconds
            )
            return DataMessages(once=both)
        return DataMessages(once=scatter, after=gather)
    scatter = half(padded * state.gradients, units)
    gather = half(padded * state.parameters, units)
    if stage == 2:
        return DataMessages(backward=scatter, after=gather)
    both = StepMessage(scatter.size + gather.size, scatter.seconds + gather.seconds)
    return DataMessages(forward=gather, backward=both)


def _units_of_rank(model: Model, strategy: Strategy, rank: int) -> int:
    """Layers of a rank: ZeRO's units, and the buckets of what overlaps."""
    return sum(layers_of_stages(model, strategy)[rank :: strategy.pipeline])


def norm_messages(
    model: Model, cluster: Cluster, strategy: Strategy, rank: int
) -> StepMessage:
    """Sequence parallel sums gradients of what each rank has whole, once in a step.

    Norms and the biases of rows have seen this rank's positions only (16b): an
    all-reduce for each layer.
    """
    if not strategy.sequence_parallel:
        return StepMessage()
    size = strategy.state.gradients * unsplit_numbers_in_memory(model)
    link = link_cost_of("tensor", cluster, strategy)
    layers = _units_of_rank(model, strategy, rank)
    return _ring_seconds(strategy.tensor, size, link).times(layers)
