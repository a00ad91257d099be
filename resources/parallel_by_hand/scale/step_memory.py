"""The memory of a step: 17's ledger of each stage, with Korthikanti's activations."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from parallel_by_hand.scale.training_plan import ADAPTERS, Model, Strategy
from parallel_by_hand.sharding.ledger import SHARDED, Ledger, state_bytes
from parallel_by_hand.tensor_parallel.activation_bytes import LayerSize, published_bytes

LARGEST_UNIT = 10**9  # numbers: stage3_max_live_parameters, by default, in DeepSpeed


def layers_of_stages(model: Model, strategy: Strategy) -> list[int]:
    """For a step's memory: layers of each stage, as equal as lesson 15 cuts them."""
    return _cut(model.layers, strategy.stages)


def layers_of_ranks(model: Model, strategy: Strategy) -> list[int]:
    """For a step's memory: layers of each rank of the pipeline, of all its stages."""
    layers, ranks = layers_of_stages(model, strategy), strategy.pipeline
    return [sum(layers[rank::ranks]) for rank in range(ranks)]


@lru_cache(maxsize=1024)
def _cut(layers: int, stages: int) -> list[int]:
    edges = [layers * stage // stages for stage in range(stages + 1)]
    return [b - a for a, b in pairwise(edges)]


def unsplit_numbers_in_memory(model: Model) -> int:
    """Parameters of a layer that tensor ranks do not split: norms, biases of rows."""
    return 6 * model.hidden


def matrices_of_group(model: Model, strategy: Strategy) -> int:
    """In a step's memory: a layer's matrices in a tensor group, with its experts."""
    elsewhere = model.experts - model.experts // strategy.expert
    return model.layer_matrices - elsewhere * model.mlp_matrices


def _layer_numbers(model: Model, strategy: Strategy) -> int:
    """Parameters of a layer on one GPU, as 16b's split block has them: the matrices and
    the biases of columns are split.
    """
    split = matrices_of_group(model, strategy) + 7 * model.hidden
    return split // strategy.tensor + unsplit_numbers_in_memory(model)


def experts_of_ranks(model: Model, strategy: Strategy) -> list[int]:
    """In a step's memory: of `numbers_of_ranks`, those that not all replicas have."""
    if strategy.expert == 1:
        return [0] * strategy.pipeline
    experts = model.experts // strategy.expert * model.mlp_matrices // strategy.tensor
    return [experts * layers for layers in layers_of_ranks(model, strategy)]


def numbers_of_ranks(model: Model, strategy: Strategy) -> list[int]:
    """In a step's memory: parameters on a GPU of each rank of the pipeline."""
    ranks, layer = strategy.pipeline, _layer_numbers(model, strategy)
    numbers = [layer * layers for layers in layers_of_ranks(model, strategy)]
    if model.vocabulary:
        table = -(-model.vocabulary // strategy.tensor) * model.hidden
        numbers[0] += table + (model.sequence * model.hidden if model.tied else 0)
        numbers[-1] += 2 * model.hidden
        numbers[-1] += table if ranks > 1 or not model.tied else 0
    return numbers


def layer_activations(model: Model, strategy: Strategy, scores: bool = True) -> float:
    """Memory of a layer for one micro-batch, in bytes, with nothing computed again."""
    way = "gather twice" if strategy.sequence_parallel else "tensor"
    heads = model.heads if scores and not strategy.fused_attention else 0
    size = LayerSize(model.sequence, strategy.micro_batch, model.hidden, heads)
    kept = published_bytes(way, size, strategy.tensor, strategy.state.parameters)
    return (kept + _other_shape(model, strategy)) / strategy.context


def _other_shape(model: Model, strategy: Strategy) -> float:
    """What a layer keeps beyond Korthikanti's: fewer keys, another MLP, no masks.

    Of several experts each has an input and an output of its own.
    """
    h, tokens = model.hidden, model.sequence * strategy.micro_batch
    keys = 2 * (model.kv_hidden - h)
    copies = 2 * h if model.experts > 1 else 0
    mlp = (2 + model.gated) * model.mlp_hidden + copies
    mlp = model.experts_per_token * mlp - 8 * h
    masks = 2 * h if strategy.fused_attention else 0
    split = strategy.tensor if strategy.sequence_parallel else 1
    numbers = (keys + mlp) / strategy.tensor
    return tokens * (strategy.state.parameters * numbers - masks / split)


def kept_activations(model: Model, strategy: Strategy) -> float:
    """Memory of a layer for one micro-batch under the strategy's recomputation."""
    if strategy.recomputation == "full":
        return strategy.state.parameters * hidden_numbers(model, strategy)
    return layer_activations(model, strategy, strategy.recomputation == "none")


def hidden_numbers(model: Model, strategy: Strategy) -> int:
    """In a step's memory, s b h: the numbers between two layers, of one micro-batch."""
    return model.sequence // strategy.context * strategy.micro_batch * model.hidden


def _activations(
    model: Model, strategy: Strategy, forwards: Sequence[int]
) -> list[float]:
    """Bytes of activations on a GPU of each rank of the pipeline, at the most.

    `forwards` says of how many micro-batches a rank keeps them: lesson 15's count of
    its schedule. A layer that is computed again has all of its activations for the time
    being. The last rank has the logits of one micro-batch as well.
    """
    layers = max(layers_of_stages(model, strategy))
    kept = kept_activations(model, strategy)
    again = layer_activations(model, strategy) - kept
    if strategy.recomputation == "none":
        again = 0.0
    of_ranks = [times * layers * kept + again for times in forwards]
    if model.vocabulary:
        tokens = model.sequence // strategy.context * strategy.micro_batch
        of_ranks[-1] += strategy.logit * tokens * model.vocabulary / strategy.tensor
    return of_ranks


def ledgers_of_ranks(
    model: Model, strategy: Strategy, forwards: Sequence[int]
) -> list[Ledger]:
    """17's ledger of a GPU of each rank of the pipeline, in bytes.

    Buffers are what ZeRO borrows: of stage 2 the gradients of one layer, of stage 3
    besides them two layers' parameters, one in use and one on its way. A very large
    layer comes in parts.
    """
    layer = min(_layer_numbers(model, strategy), LARGEST_UNIT)
    buffers, sharded = 0, SHARDED[strategy.shards]
    if "gradients" in sharded:
        buffers += strategy.state.gradients * layer
    if "parameters" in sharded:
        buffers += 2 * strategy.state.parameters * layer
    kept = _activations(model, strategy, forwards)
    if strategy.shard_ranks == 1:
        buffers = 0
    numbers = numbers_of_ranks(model, strategy)
    of_ranks = list(zip(numbers, experts_of_ranks(model, strategy), strict=True))
    states = {pair: _state_of_rank(strategy, *pair) for pair in set(of_ranks)}
    return [
        Ledger(*states[pair], buffers=buffers, activations=round(activations))
        for pair, activations in zip(of_ranks, kept, strict=True)
    ]


def _state_of_rank(strategy: Strategy, numbers: int, experts: int) -> list[int]:
    """Bytes of parameters, gradients and optimiser, with those of adapters."""
    ranks, shards, state = strategy.shard_ranks, strategy.shards, strategy.state
    parts = [state_bytes(numbers - experts, ranks, shards, state)]
    if experts:
        parts += [state_bytes(experts, ranks // strategy.expert, shards, state)]
    if strategy.frozen:
        parts += [state_bytes(round(numbers * ADAPTERS), ranks, shards)]
    return [sum(sizes) for sizes in zip(*parts, strict=True)]
