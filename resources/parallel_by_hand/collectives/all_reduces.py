"""All-reduce four ways, from point-to-point messages only.

Each function sums a contiguous tensor over all ranks, in place, and leaves the same
bits on every rank. They differ in who sends how much to whom, and in how many messages
must follow one another. With N ranks and S elements:

    way               messages in a row     elements in a row
    root              2 (N - 1)             2 (N - 1) S
    tree              2 ceil(log2 N)        2 ceil(log2 N) S
    ring              2 (N - 1)             2 (N - 1) / N S
    halving-doubling  2 log2 N              2 (N - 1) / N S     (N a power of two)

Source: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication
Operations in MPICH, 2005.
"""

import torch
import torch.distributed as dist

from parallel_by_hand.collectives.eight_collectives import exchange
from sidebyside import span


def all_reduce_at_root(tensor: torch.Tensor) -> None:
    """Everyone sends to rank 0, which adds up and sends the total to everyone."""
    rank, others = dist.get_rank(), range(1, dist.get_world_size())
    if rank == 0:
        for other in others:
            received = torch.empty_like(tensor)
            dist.recv(received, other)
            tensor += received
        for other in others:
            dist.send(tensor, other)
    else:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)


def ring_all_reduce(tensor: torch.Tensor, group=None) -> None:
    """Chunks travel to the right: N - 1 times to be added to, N - 1 times to be kept.

    After the first half each rank holds one finished sum (a reduce-scatter), after the
    second all of them (an all-gather). A rank sends 2 (N - 1) / N of the tensor: at
    most two tensors, however many ranks there are. Patarasuk and Yuan, 2009.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    chunks = tensor.view(-1).tensor_split(ranks)  # views, not copies
    buffer = torch.empty_like(chunks[0])  # the longest

    for step in range(ranks - 1):
        outgoing, incoming = (rank - step) % ranks, (rank - step - 1) % ranks
        with span(f"reduce {outgoing}"):
            received = buffer[: len(chunks[incoming])]
            exchange({right: chunks[outgoing]}, {left: received}, group)
            chunks[incoming].add_(received)

    for step in range(ranks - 1):
        outgoing, incoming = (rank - step + 1) % ranks, (rank - step) % ranks
        with span(f"gather {outgoing}"):
            exchange({right: chunks[outgoing]}, {left: chunks[incoming]}, group)


def tree_all_reduce(tensor: torch.Tensor) -> None:
    """Sums go down a binomial tree to rank 0, and the total goes back up.

    The parent of a rank is its number without the last 1 bit: 6 (110) sends to 4 (100),
    which sends to 0. So the children of a rank are 1, 2, 4, ... above it, as long as
    that is below its own last 1 bit.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    children, distance = [], 1
    while rank + distance < ranks and not rank & distance:
        children.append(rank + distance)
        distance *= 2

    received = torch.empty_like(tensor)
    for child in children:
        dist.recv(received, child)
        tensor += received
    if rank:
        parent = rank & (rank - 1)
        dist.send(tensor, parent)
        dist.recv(tensor, parent)
    for child in reversed(children):
        dist.send(tensor, child)


def halving_doubling_all_reduce(tensor: torch.Tensor) -> None:
    """Swap halves with a far partner, then quarters with a nearer one; and back.

    That needs a power of two of ranks. If there are more, each of the others gives its
    tensor to one of these first, and gets the total in the end.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    power = 1 << (ranks.bit_length() - 1)  # the largest power of two there is
    if rank >= power:
        dist.send(tensor, rank - power)
        dist.recv(tensor, rank - power)
        return
    if rank + power < ranks:
        received = torch.empty_like(tensor)
        dist.recv(received, rank + power)
        tensor += received
    halve_then_double(tensor.view(-1), power // 2)
    if rank + power < ranks:
        dist.send(tensor, rank + power)


def halve_then_double(piece: torch.Tensor, distance: int) -> None:
    """Sum `piece` over all ranks that differ from this one in bits up to `distance`."""
    if distance == 0:
        return  # the piece is summed over all ranks
    rank, (low, high) = dist.get_rank(), piece.tensor_split(2)
    keep, give = (high, low) if rank & distance else (low, high)
    received, partner = torch.empty_like(keep), rank ^ distance
    exchange({partner: give}, {partner: received})
    keep += received
    halve_then_double(keep, distance // 2)
    exchange({partner: keep}, {partner: give})


ALL_REDUCES = {
    "root": all_reduce_at_root,
    "tree": tree_all_reduce,
    "ring": ring_all_reduce,
    "halving-doubling": halving_doubling_all_reduce,
}
