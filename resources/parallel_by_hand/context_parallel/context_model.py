"""The pixel model of lesson 16b with its text split over ranks, and three mistakes.

Parameters are whole on every rank, as in data parallel; positions are not.
"""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportOptionalOperand=false, reportOperatorIssue=false

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.context_parallel.chunks import in_order, own_chunks, zig_zag
from parallel_by_hand.context_parallel.other_ways import WAYS
from parallel_by_hand.tensor_parallel.pixel_model import (
    LENGTH,
    PixelModel,
    pixel_batches,
)
from sidebyside import device

PROMPT, IGNORED = 12, -100  # labels of the first positions, and cross_entropy's mark
MISTAKES = "places from 0", "labels in order", "mean of means"


class ContextAttention(nn.Module):
    """An `AttentionHalf` for this rank's positions; `attend` reaches the others."""

    def __init__(self, half: Any, attend: Callable):
        super().__init__()
        self.norm, self.into, self.out = half.norm, half.into, half.out
        self.heads, self.attend = half.heads, attend

    def forward(self, x: Tensor) -> Tensor:
        parts = self.into(self.norm(x)).unflatten(2, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = self.attend(query, key, value, zig_zag).transpose(1, 2).flatten(2)
        return x + self.out(mixed)


class ContextPixelModel(nn.Module):
    """A copy of the model for this rank's positions: the sum of their losses."""

    def __init__(self, whole: PixelModel, way: str):
        super().__init__()
        mine = copy.deepcopy(whole)
        self.words, self.places = mine.words, mine.places
        self.block = nn.Sequential(
            ContextAttention(mine.block[0], WAYS[way]), mine.block[1]
        )

    def forward(self, tokens: Tensor, labels: Tensor, where: Tensor) -> Tensor:
        """`where` numbers the positions in the whole text."""
        x = self.block(self.words(tokens) + self.places[where])
        logits = (x @ self.words.weight.T).flatten(0, 1)
        return F.cross_entropy(
            logits, labels.flatten(), reduction="sum", ignore_index=IGNORED
        )


def _texts() -> tuple[Tensor, Tensor]:
    """Tokens and labels, of which those of the prompt do not count."""
    tokens, labels = pixel_batches(16, 1)[0]
    labels = labels.clone()
    labels[:, :PROMPT] = IGNORED
    return tokens.to(device()), labels.to(device())


def own_text(mistake: str = "") -> tuple[Tensor, Tensor, Tensor]:
    """This rank's tokens, labels and places, which are dealt alike."""
    whole, where = _texts(), torch.arange(LENGTH, device=device())
    tokens, labels = (own_chunks(part, zig_zag, 1) for part in whole)
    where = own_chunks(where, zig_zag, 0)
    if mistake == "labels in order":
        labels = own_chunks(whole[1], in_order, 1)
    if mistake == "places from 0":
        where = torch.arange(len(where), device=device())
    return tokens, labels, where


def all_counted(labels: Tensor) -> Tensor:
    """How many tokens count on all ranks together: the divisor of each rank's sum."""
    counted = (labels != IGNORED).sum()
    dist.all_reduce(counted)
    return counted


def compare_with_whole_text(way: str = "ring", mistake: str = "") -> dict:
    """Runs in each rank: loss and gradients of all parameters beside the whole text.

    `gap` is the largest difference of gradients, divided by the largest gradient.
    """
    whole = PixelModel().double().to(device())
    mine = ContextPixelModel(whole, way)
    tokens, labels, where = own_text(mistake)
    divisor, counted = all_counted(labels), (labels != IGNORED).sum()
    if mistake == "mean of means":
        divisor = counted * dist.get_world_size()
    loss = mine(tokens, labels, where) / divisor
    loss.backward()
    dist.all_reduce(loss.detach())
    for parameter in mine.parameters():
        dist.all_reduce(parameter.grad)
    expected = whole(*_texts())
    expected.backward()
    theirs, ours = dict(whole.named_parameters()), dict(mine.named_parameters())
    gaps = [(ours[name].grad - p.grad).abs().max() for name, p in theirs.items()]
    largest = max(p.grad.abs().max() for p in theirs.values())
    return {
        "loss": loss.item(),
        "whole loss": expected.item(),
        "gap": (max(gaps) / largest).item(),
        "counted": counted.item() // len(labels),
    }
