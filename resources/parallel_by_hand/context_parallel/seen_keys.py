"""Attention to a part of the keys: what a query has seen so far, and the way back.

Shapes: queries, keys and values (..., positions, d), log-sums (..., positions). `ahead`
marks the keys that a query may not see. Source of the two formulas: Dao et al.,
FlashAttention, 2022, which goes through the keys of one device in pieces.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Seen = tuple[Tensor, Tensor]  # mixed values, and log of the sum of exp(score)
Gradients = tuple[Tensor, ...]  # of query, key, value


def masked_scores(query: Tensor, key: Tensor, ahead: Tensor | None) -> Tensor:
    """Query times key, divided by the root of d; minus infinity for what is ahead."""
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return scores if ahead is None else scores.masked_fill(ahead, -torch.inf)


def attend_to_piece(query: Tensor, key: Tensor, value: Tensor, ahead=None) -> Seen:
    """What each query sees of these keys: mixed values, and the scores' log-sum."""
    scores = masked_scores(query, key, ahead)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def merge_seen(one: Seen, other: Seen) -> Seen:
    """What is seen of both sets of keys together: a mean, weighted by the sums."""
    log_sum = torch.logaddexp(one[1], other[1])
    weights = [(seen[1] - log_sum).exp()[..., None] for seen in (one, other)]
    return weights[0] * one[0] + weights[1] * other[0], log_sum


def gradients_of_piece(
    query: Tensor, key: Tensor, value: Tensor, seen: Seen, gradient: Tensor, ahead=None
) -> Gradients:
    """What these keys and values contribute to the gradients of query, key and value.

    `seen` is what the queries have seen of *all* keys, and `gradient` that of the mixed
    values. The scores are computed again: with the log-sum of all keys, their
    exponentials are this piece's part of the whole softmax.
    """
    mixed, log_sum = seen
    weights = (masked_scores(query, key, ahead) - log_sum[..., None]).exp()
    common = (gradient * mixed).sum(-1, keepdim=True)
    of_scores = weights * (gradient @ value.transpose(-1, -2) - common)
    of_scores = of_scores * query.shape[-1] ** -0.5
    of_value = weights.transpose(-1, -2) @ gradient
    return of_scores @ key, of_scores.transpose(-1, -2) @ query, of_value


# With chunks, of which some lie ahead -------------------------------------------------


def _triangle(chunk: Tensor, mine: int, theirs: int) -> Tensor | None:
    """What a chunk may not see of itself; None, for it sees all of an earlier one."""
    size = chunk.shape[-2]
    ahead = torch.ones(size, size, dtype=torch.bool, device=chunk.device).triu(1)
    return ahead if mine == theirs else None


def attend_to_chunks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mine: Sequence[int],
    theirs: Sequence[int],
) -> Seen:
    """What the chunks `mine` of queries see of the chunks `theirs` of keys.

    What lies ahead is not computed. A chunk that sees nothing has the log-sum of
    nothing, minus infinity.
    """
    pieces = (tensor.chunk(len(theirs), -2) for tensor in (key, value))
    chunks = list(zip(theirs, *pieces, strict=True))
    found = []
    for number, part in zip(mine, query.chunk(len(mine), -2), strict=True):
        seen = torch.zeros_like(part), torch.full_like(part[..., 0], -torch.inf)
        for other, keys, values in chunks:
            if other <= number:
                ahead = _triangle(part, number, other)
                seen = merge_seen(seen, attend_to_piece(part, keys, values, ahead))
        found.append(seen)
    mixed, log_sums = zip(*found, strict=True)
    return torch.cat(mixed, -2), torch.cat(log_sums, -1)


def gradients_of_chunks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seen: Seen,
    gradient: Tensor,
    mine: Sequence[int],
    theirs: Sequence[int],
) -> Gradients:
    """`gradients_of_piece` where `attend_to_chunks` has attended, chunk by chunk."""
    total = tuple(torch.zeros_like(tensor) for tensor in (query, key, value))
    at_query = [
        tensor.chunk(len(mine), -2) for tensor in (query, seen[0], gradient, total[0])
    ]
    log_sums = seen[1].chunk(len(mine), -1)
    at_key = [t.chunk(len(theirs), -2) for t in (key, value, *total[1:])]
    for number, q, mixed, g, of_q, log_sum in zip(
        mine, *at_query, log_sums, strict=True
    ):
        for other, k, v, of_k, of_v in zip(theirs, *at_key, strict=True):
            if other <= number:
                ahead = _triangle(q, number, other)
                parts = gradients_of_piece(q, k, v, (mixed, log_sum), g, ahead)
                for sum_so_far, part in zip((of_q, of_k, of_v), parts, strict=True):
                    sum_so_far += part  # a view: adds to `total`
    return total


class ChunkAttention(torch.autograd.Function):
    """`attend_to_chunks` that computes the scores again in backward, as fused kernels
    do: it keeps its inputs, the mixture, and a number for each query."""

    @staticmethod
    def forward(ctx, query, key, value, mine, theirs) -> Tensor:
        seen = attend_to_chunks(query, key, value, mine, theirs)
        ctx.save_for_backward(query, key, value, *seen)
        ctx.chunks = mine, theirs
        return seen[0]

    @staticmethod
    def backward(ctx, gradient: Tensor):
        query, key, value, mixed, log_sum = ctx.saved_tensors
        given = query, key, value, (mixed, log_sum), gradient
        return *gradients_of_chunks(*given, *ctx.chunks), None, None
