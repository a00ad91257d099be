"""Which chunks of a text each rank holds, and what they have to see of other chunks.

A text is cut into 2 N equal chunks, numbered from the front, and each of N ranks holds
two. A deal says which two: `deal(rank, ranks)`. No position looks ahead: chunk 5 sees
all of chunks 0 to 4, a triangle of itself, and nothing of chunk 6. So each rank's work
can be counted in pairs of chunks. Text dimensions are counted from the end: positions
are the last but one of queries, keys and values.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

Deal = Callable[[int, int], tuple[int, int]]


def in_order(rank: int, ranks: int) -> tuple[int, int]:
    """Neighbouring chunks: an unbroken part of the text."""
    return 2 * rank, 2 * rank + 1


def zig_zag(rank: int, ranks: int) -> tuple[int, int]:
    """One chunk from the front, one from the end; their numbers always add up to
    2 N - 1.

    Source: Zhu, ring-flash-attention, 2024, and Llama 3, 2024, section 3.3.2.
    """
    return rank, 2 * ranks - 1 - rank


DEALS = {"in order": in_order, "zig-zag": zig_zag}


def all_chunks(deal: Deal, ranks: int) -> list[int]:
    """The chunks' numbers as they lie if the ranks' parts are put side by side."""
    return [chunk for rank in range(ranks) for chunk in deal(rank, ranks)]


def own_chunks(x: Tensor, deal: Deal, dim: int) -> Tensor:
    """A copy of this rank's part of a text whose positions are dimension `dim`.

    `ValueError` if 2 N does not divide the number of positions.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if x.shape[dim] % (2 * ranks):
        why = f"{x.shape[dim]} positions cannot be cut into {2 * ranks} equal chunks"
        raise ValueError(why)
    parts = x.chunk(2 * ranks, dim)
    return torch.cat([parts[chunk] for chunk in deal(rank, ranks)], dim)


def pairs_to_compute(deal: Deal, ranks: int, positions: int) -> list[list[int]]:
    """Row r: how many pairs of a query and a key rank r computes in each of N steps.

    In step t it sees the keys of rank r - t, which have gone t ranks to the right.
    """
    size = positions // (2 * ranks)
    whole, triangle = size**2, size * (size + 1) // 2
    return [
        [
            sum(
                whole * (theirs < mine) + triangle * (theirs == mine)
                for mine in deal(rank, ranks)
                for theirs in deal((rank - step) % ranks, ranks)
            )
            for step in range(ranks)
        ]
        for rank in range(ranks)
    ]
