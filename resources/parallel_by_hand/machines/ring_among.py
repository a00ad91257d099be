"""Lesson 10b's ring, among some of the ranks and in any order."""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from sidebyside import span


def ring_among(tensor: torch.Tensor, members: Sequence[int]) -> None:
    """Sum a contiguous `tensor` over the ranks `members`, in place, round a ring.

    Each member sends to the one after it in `members`, the last to the first. Only
    members call it. With N members each sends 2 (N - 1) / N of the tensor.
    """
    members = list(members)
    place, count = members.index(dist.get_rank()), len(members)
    right, left = members[(place + 1) % count], members[place - 1]
    chunks = tensor.view(-1).tensor_split(count)  # views, not copies

    def exchange(outgoing: torch.Tensor, incoming: torch.Tensor) -> None:
        receive = dist.irecv(incoming, left)
        with span(f"to {right}"):
            dist.isend(outgoing, right).wait()
        with span("wait"):
            receive.wait()

    for step in range(count - 1):  # reduce-scatter
        mine = chunks[(place - step - 1) % count]
        received = torch.empty_like(mine)
        exchange(chunks[(place - step) % count], received)
        mine += received
    for step in range(count - 1):  # all-gather
        exchange(chunks[(place - step + 1) % count], chunks[(place - step) % count])
