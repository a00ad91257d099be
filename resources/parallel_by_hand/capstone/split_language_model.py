"""The language model, its blocks split over ranks by heads and neurons, or its text."""

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.context_parallel.chunks import own_chunks, zig_zag
from parallel_by_hand.context_parallel.context_model import ContextAttention
from parallel_by_hand.context_parallel.other_ways import attend_to_gathered
from parallel_by_hand.model_parallel.transformer_block import AttentionHalf, MLPHalf
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from parallel_by_hand.tensor_parallel.split_block import (
    CONJUGATES,
    HELD_WHOLE,
    SplitAttention,
    SplitMLP,
    causal_attention,
    ends_in_group,
    no_dropout,
)


def split_language_model(model: nn.Sequential, way: str, group) -> nn.Sequential:
    """The model with this rank's heads and neurons; `way` is "tensor" or "sequence"."""
    ends, layers = ends_in_group(*CONJUGATES[way], group=group), []
    for layer in model:
        if isinstance(layer, AttentionHalf):
            layer = SplitAttention(layer, ends, causal_attention, no_dropout)
        elif isinstance(layer, MLPHalf):
            layer = SplitMLP(layer, ends, no_dropout)
        layers.append(layer)
    return nn.Sequential(*layers)


def loss_of_own_positions(
    model: nn.Sequential, inputs: Tensor, targets: Tensor, group
) -> Tensor:
    """The split language model's loss: the summand of this rank's own positions."""
    embedding, *layers = model
    mine, goals = own_positions(inputs, group), own_positions(targets, group)
    x = embedding(mine, first=dist.get_rank(group) * mine.shape[1])
    for layer in layers:
        x = layer(x)
    return F.cross_entropy(x, goals.flatten(), reduction="sum") / targets.numel()


WHOLE_AROUND_BLOCKS = "words", "places", "scores.weight", "scores.bias"


def sum_of_position_gradients(model: nn.Module, group) -> None:
    """Complete the split language model's gradients of what each rank holds whole.

    Each rank has seen its own positions only, so its gradient is a summand.
    """
    whole = HELD_WHOLE + WHOLE_AROUND_BLOCKS
    for name, parameter in model.named_parameters():
        if name.endswith(whole):
            dist.all_reduce(parameter.grad, group=group)


class _ContextEmbedding(nn.Module):
    """The text embedding of this rank's positions, which stand where it says."""

    def __init__(self, whole: Any):
        super().__init__()
        self.words, self.places = whole.words, whole.places

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.words) + own_chunks(self.places, zig_zag, 0)


def context_language_model(model: nn.Sequential) -> nn.Sequential:
    """The language model for this rank's positions, dealt by zig-zag over all ranks."""
    embedding, *layers = model
    for place, layer in enumerate(layers):
        if isinstance(layer, AttentionHalf):
            layers[place] = ContextAttention(layer, attend_to_gathered)
    return nn.Sequential(_ContextEmbedding(embedding), *layers)
