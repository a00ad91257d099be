"""Run one of the eight collectives on labelled data: who holds what, before and after.

Rank r holds 10 ** r, and of its piece c (c + 1) * 10 ** r: 300 is piece 2 of rank 2.
So the place of a digit says whose number it is, and the digit which piece. In a sum,
such as 3333, each digit says who was counted: here piece 2 of all four ranks.
"""

from types import ModuleType
from typing import NamedTuple

import torch
import torch.distributed as dist

from sidebyside import MessageMeter, device, run_ranks

MOST_RANKS = 8  # numbers of eight digits, and no digit above 8

Held = dict[int, int | None]
"""The number in each column of one rank's row; None: there, and not defined."""


class CollectiveRun(NamedTuple):
    """Who holds what in one run: a row for each rank, and its meter."""

    before: list[Held]
    after: list[Held]
    meters: list[MessageMeter]


def run_collectives(
    operations: list[str],
    library: ModuleType = dist,
    world_size: int = 4,
    size: int = 1,
) -> dict[str, CollectiveRun]:
    """Who holds what in these operations of `library`, `size` numbers in each piece."""
    for operation in operations:
        if operation not in ON_LABELLED_PIECES:
            allowed = ", ".join(ON_LABELLED_PIECES)
            raise ValueError(f"operations are {allowed}, not {operation!r}")
    ranks = run_ranks(_run_labelled, operations, library, size, world_size=world_size)
    return {
        operation: CollectiveRun(*map(list, zip(*rows, strict=True)))
        for operation, rows in zip(operations, zip(*ranks, strict=True), strict=True)
    }


def _run_labelled(
    operations: list[str], library: ModuleType, size: int
) -> list[tuple[Held, Held, MessageMeter]]:
    """Runs in each rank."""
    found = []
    for operation in operations:
        held = ON_LABELLED_PIECES[operation](library, size)
        before = {column: int(piece[0]) for column, piece in next(held).items()}
        with MessageMeter() as meter:
            after = next(held)
        for piece in after.values():
            assert piece is None or (piece == piece[0]).all(), "a piece is one number"
        after = {column: _first_number(piece) for column, piece in after.items()}
        found.append((before, after, meter))
    return found


def _first_number(piece: torch.Tensor | None) -> int | None:
    return None if piece is None else int(piece[0])


def _labelled_piece(column: int, size: int) -> torch.Tensor:
    """Piece `column` of this rank."""
    number = (column + 1) * 10 ** dist.get_rank()
    return torch.full((size,), number, device=device())


def _labelled_pieces(size: int) -> list[torch.Tensor]:
    """This rank's N pieces."""
    return [_labelled_piece(c, size) for c in range(dist.get_world_size())]


def _empty_pieces(size: int) -> list[torch.Tensor]:
    return [torch.empty_like(_labelled_piece(0, size)) for _ in _labelled_pieces(size)]


# Each yields, by column, what goes into the call, and then what the call has written.


def _broadcast(library, size):
    tensor = _labelled_piece(0, size)
    yield {0: tensor} if dist.get_rank() == 0 else {}
    library.broadcast(tensor, src=0)
    yield {0: tensor}


def _scatter(library, size):
    is_root, rank = dist.get_rank() == 0, dist.get_rank()
    tensor, pieces = _empty_pieces(size)[0], _labelled_pieces(size) if is_root else None
    yield dict(enumerate(pieces or []))
    library.scatter(tensor, pieces, src=0)
    yield {rank: tensor}


def _gather(library, size):
    tensor, rank = _labelled_piece(0, size), dist.get_rank()
    pieces = _empty_pieces(size) if rank == 0 else None
    yield {rank: tensor}
    library.gather(tensor, pieces, dst=0)
    yield dict(enumerate(pieces or []))


def _reduce(library, size):
    tensor = _labelled_piece(0, size)
    yield {0: tensor}
    library.reduce(tensor, dst=0)
    yield {0: tensor if dist.get_rank() == 0 else None}


def _all_gather(library, size):
    tensor, pieces = _labelled_piece(0, size), _empty_pieces(size)
    yield {dist.get_rank(): tensor}
    library.all_gather(pieces, tensor)
    yield dict(enumerate(pieces))


def _reduce_scatter(library, size):
    pieces, tensor = _labelled_pieces(size), _empty_pieces(size)[0]
    yield dict(enumerate(pieces))
    library.reduce_scatter(tensor, pieces)
    yield {dist.get_rank(): tensor}


def _all_reduce(library, size):
    tensor = torch.cat(_labelled_pieces(size))
    yield dict(enumerate(tensor.clone().split(size)))
    library.all_reduce(tensor)
    yield dict(enumerate(tensor.split(size)))


def _all_to_all(library, size):
    pieces, received = _labelled_pieces(size), _empty_pieces(size)
    yield dict(enumerate(pieces))
    library.all_to_all(received, pieces)
    yield dict(enumerate(received))


ON_LABELLED_PIECES = {
    "broadcast": _broadcast,
    "scatter": _scatter,
    "gather": _gather,
    "reduce": _reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
}
EIGHT = list(ON_LABELLED_PIECES)
