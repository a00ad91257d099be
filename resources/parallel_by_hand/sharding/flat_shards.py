"""Parameters in one flat tensor, cut into equal shards, and the ring that moves them.

The ring is lesson 10b's, in its two halves: reduce-scatter and all-gather. Here rank r
ends the first half with chunk r, so that the chunk is its shard. `group` is a process
group, by default all ranks.
"""

import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.collectives.eight_collectives import exchange


def parameters_by_layer(module: nn.Module) -> list[list[nn.Parameter]]:
    """The trained parameters, a list for each child of the module that has any."""
    lists = [[p for p in c.parameters() if p.requires_grad] for c in module.children()]
    return [some for some in lists if some]


def own_shard(flat: Tensor, group=None) -> Tensor:
    """This rank's part of a flat tensor that all ranks cut alike: a view."""
    length = flat.numel() // dist.get_world_size(group)
    return flat.narrow(0, dist.get_rank(group) * length, length)


class FlatParameters:
    """Some parameters in one flat tensor, padded with zeros to one shard per rank.

    `flat` holds the numbers, and each parameter becomes a view of it: to change one is
    to change the other. All ranks begin with the numbers of rank 0. `shard` is this
    rank's part, a view as well. All parameters must have one dtype and one device.
    Cost: padding of less than one number per rank.
    """

    def __init__(self, parameters: list[nn.Parameter], group=None):
        self.parameters, self.group = parameters, group
        self.sizes = [p.numel() for p in parameters]
        self.numbers = sum(self.sizes)
        self.flat = self.zeros()
        for p, view in zip(parameters, self.views_of(self.flat), strict=True):
            view.copy_(p.detach())
            p.data = view
        dist.broadcast(self.flat, group=group, group_src=0)

    @property
    def shard(self) -> Tensor:
        return own_shard(self.flat, self.group)

    def zeros(self) -> Tensor:
        """A flat tensor with room for one number for each of the parameters'."""
        ranks = dist.get_world_size(self.group)
        length = -(-self.numbers // ranks)  # of a shard; the last may end with padding
        return self.parameters[0].detach().new_zeros(length * ranks)

    def views_of(self, flat: Tensor) -> list[Tensor]:
        """The parts of such a tensor, each with the shape of its parameter."""
        pieces = flat[: self.numbers].split(self.sizes)
        pairs = zip(pieces, self.parameters, strict=True)
        return [piece.view(p.shape) for piece, p in pairs]


def room_for_chunk(flat: Tensor, group=None) -> Tensor:
    """Where a chunk of `flat` may arrive; one rank alone gets none."""
    ranks = dist.get_world_size(group)
    return flat.new_empty(flat.numel() // ranks if ranks > 1 else 0)


def master_copy(shard: Tensor) -> nn.Parameter:
    """What the optimiser updates of a flat shard: itself, or a copy in 32 bits."""
    sixteen_bits = shard.element_size() == 2
    return nn.Parameter(shard.detach().float() if sixteen_bits else shard.detach())


def ring_reduce_scatter(flat: Tensor, room: Tensor | None = None, group=None) -> Tensor:
    """This rank's shard of the sum over all ranks, a view of `flat`.

    A chunk starts at the rank behind its owner and goes once round the ring; each rank
    adds its own. A rank sends (N - 1) / N of the tensor. `flat` is 1-D, contiguous, a
    multiple of N long; afterwards its other chunks hold sums that are not finished.
    `room` is where a chunk may arrive, or more than that; without it, it is made.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    chunks = flat.view(ranks, -1)
    arriving = room_for_chunk(flat, group) if room is None else room[: chunks.shape[1]]
    for step in range(ranks - 1):
        outgoing, incoming = (rank - step - 1) % ranks, (rank - step - 2) % ranks
        exchange({right: chunks[outgoing]}, {left: arriving}, group)
        chunks[incoming].add_(arriving)
    return chunks[rank]


def ring_all_gather(flat: Tensor, group=None) -> None:
    """Every rank's shard of `flat` goes to all ranks, in place.

    A rank sends (N - 1) / N of the tensor, which is as in `ring_reduce_scatter`.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    chunks = flat.view(ranks, -1)
    for step in range(ranks - 1):
        outgoing, incoming = (rank - step) % ranks, (rank - step - 1) % ranks
        exchange({right: chunks[outgoing]}, {left: chunks[incoming]}, group)
