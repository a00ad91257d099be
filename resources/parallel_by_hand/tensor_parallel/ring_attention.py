"""Attention over positions that lie on several ranks: keys and values go round."""

from time import sleep

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.collectives.eight_collectives import exchange
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from sidebyside import MessageMeter, device, span

Seen = tuple[Tensor, Tensor]  # mixed values, and log of the sum of exp(score)


def attend_to_piece(query: Tensor, key: Tensor, value: Tensor, ahead=None) -> Seen:
    """For ring attention, what each query sees of these keys: values, log of the sum.

    Shapes: (..., queries, d), and (..., queries). `ahead` marks what may not be seen.
    """
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if ahead is not None:
        scores = scores.masked_fill(ahead, -torch.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def merge_seen(one: Seen, other: Seen) -> Seen:
    """In ring attention: what two sets of keys show together, a mean by their sums."""
    log_sum = torch.logaddexp(one[1], other[1])
    weights = [(seen[1] - log_sum).exp()[..., None] for seen in (one, other)]
    return weights[0] * one[0] + weights[1] * other[0], log_sum


def pass_on(tensors: list[Tensor]) -> list[Tensor]:
    """Round the ring: send these to the right; what comes from the left neighbour."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    packed = torch.stack(tensors)
    arrived = torch.empty_like(packed)
    exchange({(rank + 1) % ranks: packed}, {(rank - 1) % ranks: arrived})
    return list(arrived)


def ring_attention(query: Tensor, key: Tensor, value: Tensor, causal=False) -> Tensor:
    """This rank's queries, attending to the keys of all ranks; equal parts.

    Each rank sends N - 1 times its keys and values. Source: Liu, Zaharia and Abbeel,
    Ring Attention with Blockwise Transformers for Near-Infinite Context, 2023.
    """
    rank, ranks, length = dist.get_rank(), dist.get_world_size(), query.shape[-2]
    ahead = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    with span("attend 0"):
        seen = attend_to_piece(query, key, value, ahead if causal else None)
    for step in range(1, ranks):
        with span(f"pass {step}"):
            key, value = pass_on([key, value])
        if not causal or step <= rank:  # else these keys lie ahead of all queries
            with span(f"attend {step}"):
                seen = merge_seen(seen, attend_to_piece(query, key, value))
    return seen[0]


def sleep_round_ring(seconds: float, causal: bool = True) -> None:
    """Runs in each rank: the ring's timetable; attending to a piece is sleeping."""
    rank, piece = dist.get_rank(), torch.zeros(1, device=device())
    dist.barrier()
    for step in range(dist.get_world_size()):
        if step:
            with span("wait"):
                (piece,) = pass_on([piece])
        if not causal or step <= rank:
            with span(f"piece {(rank - step) % dist.get_world_size()}"):
                sleep(seconds)


def try_ring_attention(positions: int, width: int, causal: bool) -> dict:
    """Runs in each rank: the gap to the whole attention, and what this rank sends."""
    torch.manual_seed(0)  # the same on every rank
    shape = 3, 1, positions, width
    query, key, value = torch.randn(shape, dtype=torch.float64).to(device())
    ahead = torch.ones(positions, positions, device=device()).triu(1).bool()
    whole, _ = attend_to_piece(query, key, value, ahead if causal else None)
    mine = [own_positions(t).contiguous() for t in (query, key, value)]
    with MessageMeter() as meter:
        ours = ring_attention(*mine, causal=causal)
    gap = (ours - own_positions(whole)).abs().max().item()
    pieces = dist.get_rank() + 1 if causal else dist.get_world_size()
    scores = mine[0].shape[1] ** 2
    return {
        "gap": gap,
        "bytes": meter.bytes_sent // 2,
        "pieces": pieces,
        "scores": scores,
    }
