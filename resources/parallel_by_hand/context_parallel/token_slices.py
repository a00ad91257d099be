"""A text that flows through a block in slices of tokens, as time steps do.

Source: Li et al., TeraPipe: Token-Level Pipeline Parallelism, 2021.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from parallel_by_hand.context_parallel.seen_keys import attend_to_piece
from parallel_by_hand.model_parallel.transformer_block import make_transformer_block


def step_in_slices(
    block: Any, x: Tensor, slices: int, order: Callable[[list], Iterable]
) -> None:
    """Forward and backward of a text in slices; the loss is the sum of squares.

    `block` is `make_transformer_block()`, `x` (batch, positions, width) a leaf. A slice
    sees the keys and values of those before it, which are kept. So its backward adds to
    their gradients, and has its own keys' gradients whole only after the slices behind
    it. `order` is the order of the backwards: `reversed` is right.
    """
    half, mlp = block
    seen, under_way = [], []  # queries, keys, values as leaves; what backward needs
    for part in x.chunk(slices, 1):
        parts = half.into(half.norm(part))
        seen.append(parts.detach().requires_grad_())
        mixed = _attend_to_seen(half.heads, seen)
        under_way.append((mlp(part + half.out(mixed)), parts, seen[-1]))
    for y, parts, leaf in order(under_way):
        y.square().sum().backward()
        parts.backward(leaf.grad)


def _attend_to_seen(heads: int, seen: list[Tensor]) -> Tensor:
    """The newest slice's attention to itself and to all slices before it."""
    cut = [part.unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4) for part in seen]
    query, (_, key, value) = cut[-1][0], torch.cat(cut, dim=-2)
    shape = query.shape[-2], key.shape[-2]
    ahead = torch.ones(shape, dtype=torch.bool, device=query.device)
    mixed, _ = attend_to_piece(query, key, value, ahead.triu(1 + shape[1] - shape[0]))
    return mixed.transpose(1, 2).flatten(2)


def gap_of_slices(order: Callable[[list], Iterable], slices: int = 4) -> float:
    """The largest gap of all gradients to those of the whole text, in 64 bits."""
    found = []
    for cut in (False, True):
        block = make_transformer_block(16, 2).double()
        x = torch.randn(2, 16, 16, dtype=torch.float64).requires_grad_()
        if cut:
            step_in_slices(block, x, slices, order)
        else:
            block(x).square().sum().backward()
        found.append([leaf.grad for leaf in (x, *block.parameters())])
    return max((a - b).abs().max().item() for a, b in zip(*found, strict=True))
