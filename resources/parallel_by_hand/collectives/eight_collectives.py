"""The eight collectives, from point-to-point messages only.

Each has the name and the arguments of torch's own, so `torch.distributed` and this
module are interchangeable. N is the number of ranks: of all, or of the process group
`group`, in which they are counted from 0.
"""

# Only the root has `pieces`: elsewhere they are None, as in torch.
# pyright: reportOptionalSubscript=false

import torch
import torch.distributed as dist


def other_ranks(group=None) -> list[int]:
    """All ranks but this one, beginning with the next: else all would call rank 0
    first, and queue there."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    return [(rank + step) % world_size for step in range(1, world_size)]


def broadcast(tensor: torch.Tensor, src: int = 0) -> None:
    """Every rank gets the tensor of `src`, which sends it N - 1 times."""
    if dist.get_rank() == src:
        for other in other_ranks():
            dist.send(tensor, other)
    else:
        dist.recv(tensor, src)


def scatter(
    tensor: torch.Tensor, pieces: list[torch.Tensor] | None, src: int = 0
) -> None:
    """Each rank gets one of the `pieces` of `src`, which sends N - 1 of them."""
    if dist.get_rank() == src:
        for other in other_ranks():
            dist.send(pieces[other], other)
        tensor.copy_(pieces[src])
    else:
        dist.recv(tensor, src)


def gather(
    tensor: torch.Tensor, pieces: list[torch.Tensor] | None, dst: int = 0
) -> None:
    """`dst` gets every rank's tensor, in the list `pieces`: the way back of scatter."""
    if dist.get_rank() == dst:
        for other in other_ranks():
            dist.recv(pieces[other], other)
        pieces[dst].copy_(tensor)
    else:
        dist.send(tensor, dst)


def reduce(tensor: torch.Tensor, dst: int = 0) -> None:
    """The tensor of `dst` becomes the sum of all; those of the others stay."""
    if dist.get_rank() == dst:
        arrived = torch.empty_like(tensor)
        for other in other_ranks():
            dist.recv(arrived, other)
            tensor += arrived
    else:
        dist.send(tensor, dst)


def all_reduce(tensor: torch.Tensor) -> None:
    """Every rank gets the sum of all tensors, by way of rank 0."""
    reduce(tensor, 0)
    broadcast(tensor, 0)


def exchange(
    outgoing: dict[int, torch.Tensor], incoming: dict[int, torch.Tensor], group=None
) -> None:
    """What collectives are made of: send to and receive from these ranks, all at once.

    On GPUs as well, where NCCL must be told about all these messages at once.
    """
    ends = [(dist.isend, piece, to) for to, piece in outgoing.items()]
    ends += [(dist.irecv, room, of) for of, room in incoming.items()]
    messages = [
        dist.P2POp(way, tensor, group=group, group_peer=peer)
        for way, tensor, peer in ends
    ]
    for request in dist.batch_isend_irecv(messages) if messages else []:
        request.wait()


def all_gather(pieces: list[torch.Tensor], tensor: torch.Tensor, group=None) -> None:
    """Every rank gets every rank's tensor, in the list `pieces`; sends its own N - 1
    times."""
    others = other_ranks(group)
    pieces[dist.get_rank(group)].copy_(tensor)
    exchange(dict.fromkeys(others, tensor), {r: pieces[r] for r in others}, group)


def all_to_all(
    received: list[torch.Tensor], pieces: list[torch.Tensor], group=None
) -> None:
    """`pieces[r]` goes to rank r, which finds it in its `received`, at the sender's
    index. Each rank sends N - 1 of its pieces."""
    rank, others = dist.get_rank(group), other_ranks(group)
    received[rank].copy_(pieces[rank])
    exchange({r: pieces[r] for r in others}, {r: received[r] for r in others}, group)


def reduce_scatter(
    tensor: torch.Tensor, pieces: list[torch.Tensor], group=None
) -> None:
    """`tensor` on rank r becomes the sum of all ranks' `pieces[r]`.

    All-to-all, then each rank adds what it got: N - 1 of N pieces sent.
    """
    received = [torch.empty_like(tensor) for _ in pieces]
    all_to_all(received, pieces, group)
    tensor.copy_(torch.stack(received).sum(0))


def finished() -> torch.futures.Future:
    """What stands for a message that has arrived: its `wait()` returns at once."""
    done = torch.futures.Future()
    done.set_result(None)
    return done
