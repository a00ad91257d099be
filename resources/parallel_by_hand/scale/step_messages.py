"""The messages of a step: the bytes that a GPU sends, over which link, and how long.

A collective is lesson 10b's ring. GPUs are numbered so that those of a tensor group
stand side by side, then the replicas, then the stages of the pipeline: whoever talks
most is nearest. A ring over nodes uses the network card of each member in a node.
"""

import math
from typing import NamedTuple

from parallel_by_hand.collectives.all_reduce_costs import (
    messages_and_bytes,
    predicted_seconds,
)
from parallel_by_hand.scale.step_memory import (
    experts_of_ranks,
    hidden_numbers,
    layers_of_ranks,
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

    def plus(self, other: "StepMessage") -> "StepMessage":
        return StepMessage(self.size + other.size, self.seconds + other.seconds)


def _reach_of(group: str, strategy: Strategy) -> int:
    """GPUs in a row that hold one group and whatever lies between its members."""
    return {
        "tensor": strategy.tensor,
        "context": strategy.tensor * strategy.context,
        "expert": strategy.tensor * strategy.expert,
        "data": strategy.tensor * strategy.shard_ranks,
        "same experts": strategy.tensor * strategy.shard_ranks,
        "hybrid": strategy.tensor * strategy.replicas,
        "pipeline": strategy.gpus,
    }[group]


def link_of(group: str, cluster: Cluster, strategy: Strategy) -> str:
    """For messages: "within" a node or "between" nodes, by the slowest neighbours.

    `group` is "tensor", "context", "expert", "data", "same experts", "hybrid" or
    "pipeline". Groups of six in nodes of eight: one of them lies in two nodes.
    """
    per_node = cluster.gpus_per_node
    inside = per_node % _reach_of(group, strategy) == 0 or strategy.gpus <= per_node
    return "within" if inside else "between"


def link_cost_of(group: str, cluster: Cluster, strategy: Strategy) -> Link:
    """What messages cost; a ring over nodes may use the card of each member in a node.

    The node with the fewest members has as many as the greatest common divisor says.
    """
    if link_of(group, cluster, strategy) == "within":
        return cluster.link_within
    if not cluster.ring_of_all_cards or group == "pipeline":
        return cluster.link_between
    nearer = {
        "tensor": 1,
        "same experts": strategy.tensor * strategy.expert,
        "hybrid": strategy.tensor * strategy.shard_ranks,
    }
    fewest = math.gcd(_reach_of(group, strategy), cluster.gpus_per_node)
    members = max(1, fewest // nearer.get(group, strategy.tensor))
    bandwidth = members * cluster.link_between.bandwidth
    return cluster.link_between._replace(
        bandwidth=min(bandwidth, cluster.link_within.bandwidth)
    )


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
    """Messages of one layer and one micro-batch, of tensor parallel: forward, backward.

    Each way two all-reduces of s b h numbers (16a), or as much in halves (16b's
    sequence parallel, which gathers the inputs of both pairs once more for backward).
    """
    size = strategy.state.parameters * hidden_numbers(model, strategy)
    link = link_cost_of("tensor", cluster, strategy)
    pair = _ring_seconds(strategy.tensor, size, link)
    backward = 2 + (1 if strategy.sequence_parallel else 0)
    backward += 2 if strategy.recomputation == "full" else 0
    keys = _gathered_keys(model, cluster, strategy)
    again = 3 if strategy.recomputation == "full" else 2  # gathers, and gradients home
    return pair.times(2).plus(keys), pair.times(backward).plus(keys.times(again))


def _gathered_keys(model: Model, cluster: Cluster, strategy: Strategy) -> StepMessage:
    """Context parallel: a layer's keys and values come together from all positions."""
    numbers = 2 * model.sequence * strategy.micro_batch * model.kv_hidden
    size = strategy.state.parameters * numbers / strategy.tensor
    link = link_cost_of("context", cluster, strategy)
    return _half_ring(strategy.context, size, link)


def expert_messages(
    model: Model, cluster: Cluster, strategy: Strategy
) -> tuple[StepMessage, StepMessage]:
    """Messages of one layer and one micro-batch, of its experts: forward, backward."""
    numbers = model.experts_per_token * hidden_numbers(model, strategy)
    size = strategy.state.parameters * numbers / strategy.expert  # to each of them
    size /= strategy.tensor if strategy.sequence_parallel else 1
    near = min(strategy.expert, max(1, cluster.gpus_per_node // strategy.tensor))
    sent = [
        (count * size, count * (link.alpha + size / link.bandwidth))
        for count, link in (
            (near - 1, cluster.link_within),
            (strategy.expert - near, cluster.link_between),
        )
    ]
    one = StepMessage(sum(size for size, _ in sent), max(time for _, time in sent))
    return one.times(2), one.times(4 if strategy.recomputation == "full" else 2)


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
    if strategy.pipeline == 1 or not (model.vocabulary and model.tied):
        return StepMessage()
    table = -(-model.vocabulary // strategy.tensor) * model.hidden
    link = link_cost_of("pipeline", cluster, strategy)
    return _ring_seconds(2, strategy.state.gradients * table, link)


class DataMessages(NamedTuple):
    """Data parallel's messages on one rank of the pipeline, by when they are sent."""

    forward: StepMessage = StepMessage()  # of every micro-batch
    backward: StepMessage = StepMessage()
    once: StepMessage = StepMessage()  # between the last backward and the update
    after: StepMessage = StepMessage()  # the update


def data_messages(
    model: Model, cluster: Cluster, strategy: Strategy, rank: int
) -> DataMessages:
    """DDP's all-reduce, or the halves into which ZeRO takes it apart (17a, 17b)."""
    numbers = numbers_of_ranks(model, strategy)[rank]
    units = layers_of_ranks(model, strategy)[rank]  # each is a message of its own
    experts = experts_of_ranks(model, strategy)[rank]
    found = _data_messages(cluster, strategy, numbers - experts, units, "data")
    if not experts:
        return found
    other = _data_messages(cluster, strategy, experts, units, "same experts")
    return DataMessages(*(a.plus(b) for a, b in zip(found, other, strict=True)))


def _data_messages(
    cluster: Cluster, strategy: Strategy, numbers: int, units: int, group: str
) -> DataMessages:
    """Of so many parameters, which each of the group has."""
    ranks = strategy.shard_ranks // (strategy.expert if group != "data" else 1)
    padded = ranks * -(-numbers // ranks)
    link = link_cost_of(group, cluster, strategy)

    def half(size: float, units: int) -> StepMessage:
        return _half_ring(ranks, size / units, link).times(units)

    apart = units if strategy.overlap else 1
    stage, state = strategy.shard_stage, strategy.state
    trained = padded * strategy.trained
    gradients = trained * (state.gradients or state.parameters)
    if stage <= 1:
        scatter = half(gradients, apart)
        if stage == 0:  # gradients travel both ways
            return DataMessages(once=scatter.times(2))
        return DataMessages(once=scatter, after=half(trained * state.parameters, 1))
    scatter = half(gradients, units)
    gather = half(padded * state.parameters, units)
    shard = gradients / ranks
    among = link_cost_of("hybrid", cluster, strategy)
    once = _ring_seconds(strategy.hybrid, shard, among)
    if stage == 2:
        after = half(trained * state.parameters, units)
        return DataMessages(backward=scatter, once=once, after=after)
    return DataMessages(forward=gather, backward=scatter.plus(gather), once=once)


def norm_messages(
    model: Model, cluster: Cluster, strategy: Strategy, rank: int
) -> StepMessage:
    """Sequence parallel sums gradients of what each rank has whole, once in a step."""
    if not strategy.sequence_parallel:
        return StepMessage()
    size = strategy.state.gradients * unsplit_numbers_in_memory(model)
    link = link_cost_of("tensor", cluster, strategy)
    layers = layers_of_ranks(model, strategy)[rank]
    return _ring_seconds(strategy.tensor, size, link).times(layers)
