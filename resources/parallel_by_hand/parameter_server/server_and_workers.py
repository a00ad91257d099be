"""A parameter server and its workers: pull, compute, push, with torch's own messages.

Every message is a *letter*: a share of the parameters or of a gradient, and one number
more, the version: how many updates these parameters have seen. A worker sends it back
with its gradient, so that the server knows how old the gradient is. Version -1 says
that its sender stops.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sidebyside import span

STOP = -1
Note = Callable[[int, int | None, int, Tensor], None]


@cache
def letter_group() -> Any:
    """Who carries workers' letters: gloo, for NCCL cannot take whichever comes first.

    All ranks call it once before the first letter.
    """
    return dist.new_group(backend="gloo") if dist.get_backend() == "nccl" else None


# Workers ------------------------------------------------------------------------------


def work(gradient_of: Callable, servers: Sequence[int], elements: int) -> None:
    """Runs in each worker until a server stops: pull, compute, push.

    `gradient_of(parameters, version)` gets and gives flat tensors of `elements`.
    """
    shares = torch.empty(elements).tensor_split(len(servers))
    letters = [torch.empty(len(share) + 1) for share in shares]
    while pull(letters, servers):
        parameters = torch.cat([letter[:-1] for letter in letters])
        with span("gradient"):
            gradient = gradient_of(parameters, int(letters[0][-1]))
        push(gradient, letters, servers)


def pull(letters: list[Tensor], servers: Sequence[int]) -> bool:
    """A worker fills each letter with its server's share; False if one has stopped."""
    with span("wait"):
        for letter, server in zip(letters, servers, strict=True):
            dist.recv(letter, server, group=letter_group())
    stopped = [int(letter[-1]) == STOP for letter in letters]
    if any(stopped):
        for letter, server, gone in zip(letters, servers, stopped, strict=True):
            letter[-1] = STOP
            if not gone:
                dist.send(letter, server, group=letter_group())
    return not any(stopped)


def push(gradient: Tensor, letters: list[Tensor], servers: Sequence[int]) -> None:
    """A worker sends each server its share of the gradient; the version stays."""
    for letter, piece in zip(letters, gradient.tensor_split(len(servers)), strict=True):
        letter[:-1] = piece
    with span("push"):
        pairs = zip(letters, servers, strict=True)
        sent = [
            dist.isend(letter, server, group=letter_group()) for letter, server in pairs
        ]
        for request in sent:
            request.wait()


# Servers ------------------------------------------------------------------------------


def everyone_may_go_on(pushes: dict[int, int], waiting: list[int]) -> list[int]:
    """Asynchronous: whoever waits may go on."""
    return list(waiting)


def serve_in_step(
    share: Tensor,
    workers: Sequence[int],
    rate: float,
    updates: int,
    note: Note | None = None,
    first: int = 0,
) -> None:
    """Synchronous: a gradient of every worker, then one update with their mean.

    Changes `share` in place. `note(version, worker, staleness, share)` is called after
    each update. The count of updates begins at `first`, after a restart.
    """
    letters = [torch.empty(len(share) + 1) for _ in workers]
    for version in range(first, updates):
        sent = answer_workers(share, version, workers)
        _receive_from_all(letters, workers)
        await_all_letters(sent)
        total = torch.stack([letter[:-1] for letter in letters]).sum(0)
        share -= rate * total / len(workers)
        if note:
            note(version + 1, None, 0, share)
    await_all_letters(answer_workers(share, STOP, workers))


def serve_at_once(
    share: Tensor,
    workers: Sequence[int],
    rate: float,
    updates: int,
    note: Note | None = None,
    who_goes_on: Callable = everyone_may_go_on,
) -> None:
    """Asynchronous: one update for each gradient, as soon as it comes.

    `who_goes_on(pushes, waiting)` says which of the waiting workers get an answer now;
    `pushes` counts the gradients of each worker that has not left.
    """
    letter, version = torch.empty(len(share) + 1), 0
    pushes, waiting, sent = dict.fromkeys(workers, 0), list(workers), {}
    while version < updates and pushes:
        going = who_goes_on(pushes, list(waiting))
        sent |= answer_workers(share, version, going)
        waiting = [worker for worker in waiting if worker not in going]
        with span("wait"):
            worker = dist.recv(letter, group=letter_group())  # from whoever comes first
        if int(letter[-1]) == STOP:  # another server has stopped it
            del pushes[worker]
            continue
        with span(f"update {worker}"):
            share -= rate * letter[:-1]
        waiting.append(worker)
        pushes[worker] += 1
        version += 1
        if note:
            note(version, worker, version - 1 - int(letter[-1]), share)
    sent |= answer_workers(share, STOP, waiting)
    for _ in range(len(pushes) - len(waiting)):  # those that still compute
        worker = dist.recv(letter, group=letter_group())
        if int(letter[-1]) != STOP:
            sent |= answer_workers(share, STOP, [worker])
    await_all_letters(sent)


def answer_workers(
    share: Tensor, version: int, workers: Sequence[int]
) -> dict[int, Any]:
    """Begin to send the share and its version to each of these workers.

    Does not wait: with several servers, a worker may still be pushing to another.
    """
    letter = torch.cat([share, torch.tensor([float(version)])])
    return {
        worker: dist.isend(letter, worker, group=letter_group()) for worker in workers
    }


def await_all_letters(sent: dict[int, Any]) -> None:
    """Until all these letters between server and workers have been sent."""
    for request in sent.values():
        request.wait()


def _receive_from_all(letters: list[Tensor], workers: Sequence[int]) -> None:
    """One letter from each worker, in whatever order they come."""
    with span("wait"):
        pairs = zip(letters, workers, strict=True)
        coming = [
            dist.irecv(letter, worker, group=letter_group()) for letter, worker in pairs
        ]
        for request in coming:
            request.wait()


def within_bound(pushes: dict[int, int], waiting: list[int], bound: int) -> list[int]:
    """The server's bounded staleness: who is at most `bound` ahead of the slowest.

    Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel
    Parameter Server".
    """
    slowest = min(pushes.values())
    return [worker for worker in waiting if pushes[worker] - slowest <= bound]


def staleness_of_workers(diary: list) -> dict[int, Counter]:
    """For each worker, how many of its updates had which staleness."""
    found = {}
    for update in diary:
        found.setdefault(update.worker, Counter())[update.staleness] += 1
    return dict(sorted(found.items()))
