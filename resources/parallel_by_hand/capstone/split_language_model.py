"""The language model, its blocks split over the ranks of a group by heads and neurons.

Embedding and head are whole on every rank: what they hold is small here. Lesson 16b
splits the vocabulary as well.
"""

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.capstone.group_as_world import group_as_world
from parallel_by_hand.model_parallel.transformer_block import AttentionHalf, MLPHalf
from parallel_by_hand.tensor_parallel.conjugates import copy_to_ranks, sum_over_ranks
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from parallel_by_hand.tensor_parallel.split_block import (
    ENDS,
    HELD_WHOLE,
    EndsOfSplitBlock,
    SplitAttention,
    SplitMLP,
    causal_attention,
    no_dropout,
)


def ends_in_group(group) -> EndsOfSplitBlock:
    """Tensor parallel's two ends for one group: functions, so a copy has them too."""

    def enter(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(copy_to_ranks(x, group), weight, bias)

    def leave(summand: Tensor) -> Tensor:
        return sum_over_ranks(summand, group)

    return EndsOfSplitBlock(enter, leave)


def split_language_model(model: nn.Sequential, way: str, group) -> nn.Sequential:
    """The model with this rank's heads and neurons; `way` is "tensor" or "sequence"."""
    ends = ends_in_group(group) if way == "tensor" else ENDS[way]
    layers = []
    with group_as_world(group):
        for layer in model:
            if isinstance(layer, AttentionHalf):
                layer = SplitAttention(layer, ends, causal_attention, no_dropout)
            elif isinstance(layer, MLPHalf):
                layer = SplitMLP(layer, ends, no_dropout)
            layers.append(layer)
    return nn.Sequential(*layers)


def loss_of_own_positions(model: nn.Sequential, inputs: Tensor, targets: Tensor):
    """This rank's summand of the mean loss: that of its own positions."""
    embedding, *layers = model
    mine, goals = own_positions(inputs), own_positions(targets)
    x = embedding(mine, first=dist.get_rank() * mine.shape[1])
    for layer in layers:
        x = layer(x)
    return F.cross_entropy(x, goals.flatten(), reduction="sum") / targets.numel()


WHOLE_AROUND_BLOCKS = "words", "places", "scores.weight", "scores.bias"


def sum_of_position_gradients(model: nn.Module) -> None:
    """Complete the gradients of what every rank holds whole.

    Each rank has seen its own positions only, so its gradient is a summand.
    """
    whole = HELD_WHOLE + WHOLE_AROUND_BLOCKS
    for name, parameter in model.named_parameters():
        if name.endswith(whole):
            dist.all_reduce(parameter.grad)
