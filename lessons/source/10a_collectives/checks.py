"""The checks of lesson 10a: reduce-scatter, all-to-all, a visit to the experts."""

from collections import Counter

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_single_messages, in_ranks, run_trial

from .pieces_and_tokens import (
    WIDTH,
    PiecesCase,
    PiecesNotes,
    TokensCase,
    TokensNotes,
    are_pieces_under_way_together,
    try_all_to_all,
    try_experts,
    try_reduce_scatter,
)

SIMPLE, ALL = slice(1), slice(None)  # first without different shapes, whose mistakes
CALLS = (3, SIMPLE), (4, ALL), (1, ALL), (5, ALL)  # hide the others

COLUMNS = [
    PiecesCase(
        lambda s, r: (4,), torch.int64, "rank r's pieces are 1, 2, ... times 10^r"
    ),
    PiecesCase(lambda s, r: (2, 3), torch.float64, "pieces of 2 x 3 64-bit numbers"),
]
PAIRS = [
    *COLUMNS,
    PiecesCase(lambda s, r: (s + 1, r + 2), torch.float32, "s + 1 by r + 2 numbers"),
    PiecesCase(lambda s, r: (40_000,), torch.float32, "pieces of 40,000 numbers"),
]


# 10a-reduce-scatter -------------------------------------------------------------------


@exercise("10a-reduce-scatter", in_ranks=True, when_hung="who receives while all send")
def check_10a_reduce_scatter(reduce_scatter):
    for ranks, which in CALLS:
        tried = f"reduce_scatter(tensor, pieces) {in_ranks(ranks)}"
        think = "what this line gets, in which rank"
        with trying(tried, think=think):
            found = run_trial(
                try_reduce_scatter, reduce_scatter, COLUMNS[which], ranks=ranks
            )
        for case, notes in zip(COLUMNS[which], zip(*found, strict=True), strict=True):
            with trying(f"{tried}, {case.about}") as expect:
                for rank, note in enumerate(notes):
                    expect_single_messages(expect, rank, note.meter)
                _expect_columns_of_pieces_added(expect, notes)
                _expect_pieces_kept(expect, notes)
                _expect_each_piece_sent_once(expect, notes)


def _expect_columns_of_pieces_added(expect, notes: tuple[PiecesNotes]) -> None:
    for rank, note in enumerate(notes):
        got, wanted = note.got[0], note.wanted[0]
        if torch.equal(got, wanted):
            continue
        think = "what is added up: each rank's pieces[r], once, on rank r"
        if torch.allclose(got * float(len(notes)), wanted + 0.0, atol=len(notes)):
            think = "what is asked for: the sum, divided by nothing"
        elif torch.equal(got, wanted + 77):
            think = "what `tensor` held before, which is not to be counted"
        elif torch.equal(got, torch.full_like(got, 77)):
            think = "which tensor the caller looks at: is it filled in place?"
        expect(
            False,
            got=f"rank {rank} has {_first_of_piece(got)}, and "
            f"{_first_of_piece(wanted)} is the sum",
            think=think,
        )


# 10a-all-to-all -----------------------------------------------------------------------


@exercise(
    "10a-all-to-all",
    in_ranks=True,
    when_hung="the order in which each rank comes to its pairs: who of a pair sends "
    "first, and does the other receive at that moment?",
)
def check_10a_all_to_all(all_to_all):
    for ranks, which in CALLS:
        tried = f"all_to_all(received, pieces) {in_ranks(ranks)}"
        think = "what this line gets, in which rank: the shapes of pieces may differ"
        with trying(tried, think=think):
            found = run_trial(try_all_to_all, all_to_all, PAIRS[which], ranks=ranks)
        for case, notes in zip(PAIRS[which], zip(*found, strict=True), strict=True):
            with trying(f"{tried}, {case.about}") as expect:
                for rank, note in enumerate(notes):
                    left = note.meter.not_awaited
                    expect(
                        not are_pieces_under_way_together(note.meter) and not left,
                        got="messages that were under way together",
                        think="which calls are allowed here: send and recv, which wait",
                    )
                    expect_single_messages(expect, rank, note.meter)
                _expect_each_piece_sent_once(expect, notes)
                _expect_pieces_arrived(expect, notes)
                _expect_pieces_kept(expect, notes)


def _expect_pieces_arrived(expect, notes: tuple[PiecesNotes]) -> None:
    for rank, note in enumerate(notes):
        for sender, (got, wanted) in enumerate(zip(note.got, note.wanted, strict=True)):
            if torch.equal(got, wanted):
                continue
            think = "which piece goes to which rank, and in which place it arrives"
            if torch.equal(got, torch.full_like(got, 77)):
                think = "the tensors in `received`, which are to be filled in place, "
                think += "the own piece, too"
            expect(
                False,
                got=f"rank {rank} has {_first_of_piece(got)} from rank {sender}, "
                f"who has {_first_of_piece(wanted)} for it",
                think=think,
            )


# Both ---------------------------------------------------------------------------------


def _first_of_piece(tensor: torch.Tensor) -> str:
    numbers = tensor.flatten().tolist()
    return f"{numbers[:4]}"[:-1] + (", ...]" if len(numbers) > 4 else "]")


def _expect_pieces_kept(expect, notes: tuple[PiecesNotes]) -> None:
    changed = [rank for rank, note in enumerate(notes) if not note.are_pieces_kept]
    expect(
        not changed,
        got=f"`pieces` has changed on ranks {changed}",
        think="who else uses what your function was given",
    )


def _expect_each_piece_sent_once(expect, notes: tuple[PiecesNotes]) -> None:
    """One message to each other rank."""
    for rank, note in enumerate(notes):
        sent = [m for m in note.meter.events if getattr(m, "way", "") == "send"]
        count = Counter(message.peer for message in sent)
        for peer, size in enumerate(note.sizes):
            should, given = int(peer != rank), note.meter.sent_to.get(peer, 0)
            expect(
                count[peer] == should and given == should * size,
                got=f"rank {rank} sent {count[peer]} messages, {given} bytes, to rank "
                f"{peer}, whose piece has {size}",
                think="which rank needs which piece: one message to each other rank, "
                "none to yourself, and nothing by way of a third",
            )


# 10a-experts --------------------------------------------------------------------------

TOKENS = [
    TokensCase(lambda r, n: 2 * n, lambda i, r, n: i % n, "two for each"),
    TokensCase(
        lambda r, n: 3 + 2 * r,
        lambda i, r, n: (5 * i + 3 * r + i * i // 3) % n,
        "3 + 2 r tokens on rank r",
    ),
    TokensCase(lambda r, n: 30, lambda i, r, n: n - 1, "all to the last"),
    TokensCase(lambda r, n: 1 + r % 2 * 6, lambda i, r, n: 0, "all to rank 0"),
]


@exercise("10a-experts", in_ranks=True)
def check_10a_experts(visit_experts):
    for ranks, which in CALLS:
        tried = f"visit_experts(tokens, chosen, expert) {in_ranks(ranks)}"
        think = "how many rows each rank sends to each, and how many it gets, if only "
        think += "0: in which list are they, on the way out and on the way back?"
        with trying(tried, think=think):
            found = run_trial(try_experts, visit_experts, TOKENS[which], ranks=ranks)
        for case, notes in zip(TOKENS[which], zip(*found, strict=True), strict=True):
            with trying(f"{tried}, {case.about}") as expect:
                for rank, note in enumerate(notes):
                    _expect_experts_called(expect, rank, note)
                    _expect_answers_of_experts(expect, rank, note)
                    others = sorted(set(note.collectives) - {"all_to_all"})
                    expect(
                        not others,
                        got=f"a call of {', '.join(others)} on rank {rank}",
                        think="which collective sends each rank its own rows only: "
                        "all-to-all",
                    )


def _expect_experts_called(expect, rank: int, note: TokensNotes) -> None:
    calls, wanted = len(note.seen), note.wanted_seen
    expect(
        calls == 1,
        got=f"the expert of rank {rank} was called {calls} times",
        think="how often `expert` is called: once on each rank, with all rows that "
        "want it",
    )
    seen = sorted(row for call in note.seen for row in call)
    expect(
        seen == wanted,
        got=f"the expert of rank {rank} saw {len(seen)} rows, and {len(wanted)} want it"
        + (", but others" if len(seen) == len(wanted) else ""),
        think="which rows go to which rank: `chosen` says it for each row",
    )


def _expect_answers_of_experts(expect, rank: int, note: TokensNotes) -> None:
    got, wanted = note.got, note.wanted
    expect(
        isinstance(got, torch.Tensor),
        got=got,
        think="what is to be returned: a tensor with one answer for each token",
    )
    expect(
        got.shape == (len(wanted), WIDTH),
        got=f"on rank {rank} a tensor of shape {tuple(got.shape)}",
        think=f"one row for each token: {len(wanted)} by {WIDTH}",
    )
    expect(
        note.are_inputs_kept,
        got=f"on rank {rank} `tokens` or `chosen` has changed",
        think="who else uses what your function was given",
    )
    if torch.equal(got, wanted):
        return
    think = "the way back of an answer: to which rank, and to which token's place?"
    if sorted(got.tolist()) == sorted(wanted.tolist()):
        think = "the order of the answers: the right ones, in the order of the tokens"
    token = int((got != wanted).any(1).nonzero()[0])
    expect(
        False,
        got=f"rank {rank}: the answer to token {token} is {got[token].tolist()}, and "
        f"{wanted[token].tolist()} is right",
        think=think,
    )
