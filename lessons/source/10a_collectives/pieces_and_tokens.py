"""What the checks and tests of lesson 10a run in each rank, and what they note."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.distributed as dist

from sidebyside import MessageMeter, device
from sidebyside.measure.message_meter import Message


class PiecesCase(NamedTuple):
    """Shapes of the pieces: `shape(sender, receiver)` says which."""

    shape: Callable[[int, int], tuple]
    dtype: torch.dtype
    about: str


def piece_of_case(case: PiecesCase, sender: int, receiver: int) -> torch.Tensor:
    """What `sender` has for `receiver`: whole numbers, so that every sum is exact.

    Those of 64 bits are the example's: each rank has a digit of its own in a sum.
    """
    generator = torch.Generator().manual_seed(1 + 100 * sender + receiver)
    shape = case.shape(sender, receiver)
    numbers = torch.randint(-99, 100, shape, generator=generator)
    if case.dtype == torch.int64:
        numbers = torch.full(shape, (receiver + 1) * 10**sender)
    return numbers.to(device(), case.dtype)


class PiecesNotes(NamedTuple):
    got: list[torch.Tensor]
    wanted: list[torch.Tensor]
    are_pieces_kept: bool
    meter: MessageMeter
    sizes: list[int]  # bytes of the piece for each rank


def try_reduce_scatter(answer: Callable, cases: list[PiecesCase]) -> list[PiecesNotes]:
    """Runs in each rank: one call for each case."""
    notes = []
    for case in cases:
        rank, ranks = dist.get_rank(), range(dist.get_world_size())
        columns = [piece_of_case(case, sender, rank) for sender in ranks]
        tensor = torch.full_like(columns[0], 77)  # nobody asks for these
        room = [tensor.detach()]  # the same memory, whatever happens to `tensor`
        notes.append(_try_with_pieces(case, answer, tensor, room, [sum(columns)]))
    return notes


def try_all_to_all(answer: Callable, cases: list[PiecesCase]) -> list[PiecesNotes]:
    """Runs in each rank: one call for each case."""
    notes = []
    for case in cases:
        rank, ranks = dist.get_rank(), range(dist.get_world_size())
        wanted = [piece_of_case(case, sender, rank) for sender in ranks]
        received = [torch.full_like(piece, 77) for piece in wanted]
        rooms = [room.detach() for room in received]  # the memory that is to be filled
        notes.append(_try_with_pieces(case, answer, received, rooms, wanted))
    return notes


def _try_with_pieces(case, answer, first_argument, rooms, wanted) -> PiecesNotes:
    rank, ranks = dist.get_rank(), range(dist.get_world_size())
    pieces = [piece_of_case(case, rank, receiver) for receiver in ranks]
    dist.barrier()
    with MessageMeter() as meter:
        answer(first_argument, pieces)
    dist.barrier()
    are_kept = all(
        torch.equal(piece, piece_of_case(case, rank, receiver))
        for receiver, piece in enumerate(pieces)
    )
    sizes = [piece.nbytes for piece in pieces]
    got = [room.clone() for room in rooms]
    return PiecesNotes(got, wanted, are_kept, meter, sizes)


def are_pieces_under_way_together(meter: MessageMeter) -> bool:
    """Has a message begun before the one before it was through?"""
    return any(
        isinstance(one, Message) and isinstance(next_one, Message)
        for one, next_one in pairwise(meter.events)
    )


class TokensCase(NamedTuple):
    """How many tokens a rank has, and whom token i of it wants."""

    count: Callable[[int, int], int]  # of (rank, ranks)
    wants: Callable[[int, int, int], int]  # of (i, rank, ranks)
    about: str


WIDTH = 3


def tokens_of_case(
    case: TokensCase, rank: int, ranks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row is like no other: its first number is 100 * rank + i."""
    count = case.count(rank, ranks)
    rows = torch.arange(count).unsqueeze(1) + torch.tensor([100 * rank, 0.25, 0.5])
    chosen = torch.tensor([case.wants(i, rank, ranks) for i in range(count)])
    return rows.to(device()), chosen.to(device(), torch.int64)


def answer_of_expert(rank: int, rows: torch.Tensor) -> torch.Tensor:
    return rows * (rank + 2) + rank


class TokensNotes(NamedTuple):
    got: object
    wanted: torch.Tensor
    are_inputs_kept: bool
    seen: list[list[float]]  # the first number of each row, for each call of the expert
    wanted_seen: list[float]
    collectives: list[str]


def try_experts(answer: Callable, cases: list[TokensCase]) -> list[TokensNotes]:
    """Runs in each rank: one call for each case."""
    return [_try_tokens(answer, case) for case in cases]


def _try_tokens(answer: Callable, case: TokensCase) -> TokensNotes:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tokens, chosen = tokens_of_case(case, rank, ranks)
    seen: list[list[float]] = []

    def expert(rows: torch.Tensor) -> torch.Tensor:
        seen.append(rows[:, 0].tolist())
        return answer_of_expert(rank, rows)

    dist.barrier()
    with MessageMeter() as meter:
        got = answer(tokens, chosen, expert)
    dist.barrier()
    before, wishes = tokens_of_case(case, rank, ranks)
    is_kept = torch.equal(tokens, before) and torch.equal(chosen, wishes)
    is_kept = is_kept and not (got is tokens and len(tokens))
    wanted = [
        answer_of_expert(int(r), row) for row, r in zip(before, wishes, strict=True)
    ]
    everyone = [tokens_of_case(case, other, ranks) for other in range(ranks)]
    visitors = torch.cat([rows[wants == rank] for rows, wants in everyone])
    return TokensNotes(
        got.clone() if isinstance(got, torch.Tensor) else got,
        torch.stack(wanted) if wanted else before,
        is_kept,
        seen,
        sorted(visitors[:, 0].tolist()),
        meter.collectives,
    )
