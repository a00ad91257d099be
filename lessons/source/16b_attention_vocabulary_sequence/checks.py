"""The checks of lesson 16b: a loss without the logits, one sum too many."""

from collections.abc import Sequence

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_tensor, in_ranks, run_trial

from .rings_losses_and_blocks import (
    CrossEntropyCase,
    CrossEntropyNotes,
    SequenceBlockNotes,
    try_complete_sequence_blocks,
    try_cross_entropy,
)

RANKS = 1, 2, 3, 5  # with one, only the formula can be wrong


CLOSE = 1e-4


def _expect_arguments_kept(expect, notes, think: str) -> None:
    changed = f"other numbers in {', '.join(notes.changed)} than before the call"
    expect(not notes.changed, got=changed, think=think)


# 16b-cross-entropy --------------------------------------------------------------------

LOSSES = [
    CrossEntropyCase(4, 6, scale=0),  # whatever is subtracted, and whoever has a label
    CrossEntropyCase(19, 12, level=True),  # whatever is subtracted
    CrossEntropyCase(4, 6),
    CrossEntropyCase(1, 0),
    CrossEntropyCase(19, 12),
    CrossEntropyCase(6, 9, scale=2000),
    CrossEntropyCase(7, 8, gap=3000),  # on rank 0 every exponential is 0
]


@exercise(
    "16b-cross-entropy",
    in_ranks=True,
    when_hung="whether all ranks call the same collectives, also where the label is "
    "another rank's word",
)
def check_16b_cross_entropy(parallel_cross_entropy):
    call = "parallel_cross_entropy(logits, labels, first)"
    think = (
        "what this line needs, and what a label means that is not this rank's word; "
    )
    think += "where a rank was killed, which tensors have one shape on all ranks"
    for ranks in RANKS:
        with trying(f"{call} {in_ranks(ranks)}", think=think):
            args = parallel_cross_entropy, LOSSES
            found = run_trial(try_cross_entropy, *args, ranks=ranks)
        for expect_of in _expect_cross_entropy_number, _expect_cross_entropy_gradient:
            for case, of_ranks in zip(LOSSES, zip(*found, strict=True), strict=True):
                _expect_cross_entropy(expect_of, case, of_ranks)


def _expect_cross_entropy(
    expect_of, case: CrossEntropyCase, of_ranks: Sequence[CrossEntropyNotes]
) -> None:
    ranks = len(of_ranks)
    kind = f"logits spread by {case.scale:g}"
    kind = "rank 0's logits far from the others" if case.gap else kind
    words = ranks + case.more_words
    with trying(
        f"{kind}, {case.positions} positions, {words} words {in_ranks(ranks)}"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            think = "which operations work in place, and on whose tensor"
            _expect_arguments_kept(expect, notes, think)
            expect_of(expect, rank, notes, case, ranks)


def _expect_cross_entropy_number(
    expect, rank: int, notes: CrossEntropyNotes, case: CrossEntropyCase, ranks: int
) -> None:
    got, expected = notes.got[0], notes.expected[0]
    if isinstance(got, torch.Tensor):
        shape = f"on rank {rank}, a loss of shape {tuple(got.shape)}"
        expect(got.numel() == 1, got=shape, think="the mean, over all positions")
        got = got.reshape(())
    think = "what is subtracted: by each rank the same number, and from which logits"
    if case.level:
        think = "the label's logit: whose word the label is, what others add; the mean"
    if case.scale == 0:
        think = "the logarithm of a sum over all words: what every rank adds to it"
    if ranks == 1 and (case.level or case.scale == 0):
        think = "the formula, its logarithm, signs and mean"
    if isinstance(got, torch.Tensor) and not got.isfinite().all():
        think = "the largest number whose exponential is finite, and the smallest "
        think += "whose exponential is not 0: what is subtracted at each position"
    expect_tensor(expect, f"on rank {rank}, the loss", got, expected, think, CLOSE)


def _expect_cross_entropy_gradient(
    expect, rank: int, notes: CrossEntropyNotes, *_
) -> None:
    where = f"on rank {rank}, the gradient of logits"
    got, expected = notes.got[1], notes.expected[1]
    expect(
        isinstance(got, torch.Tensor),
        got=f"{where}: {got}",
        think="by which functions autograd can go back from the loss to the logits",
    )
    think = "the softmax, less 1 at the label: what of it flows through the largest "
    think += "number, through words of other ranks, and how often it is summed"
    if isinstance(got, torch.Tensor) and got.shape == expected.shape:
        wrong = (got - expected).abs().amax(1) > CLOSE
        if 0 < wrong.sum() < len(wrong) and (expected[wrong] >= 0).all():
            think = "positions whose label is another rank's word: their sum over all "
            think += "words contains this rank's logits, too"
    expect_tensor(expect, where, got, expected, think, CLOSE)
    forward, backward = notes.collectives
    expect(
        notes.handed <= 3 and set(forward) <= {"all_reduce"},
        got=f"forward, rank {rank} handed over {notes.handed:.3g} numbers for each "
        f"position: {', '.join(forward)}",
        think="which three numbers of each position the ranks have to agree on",
    )
    expect(
        not backward,
        got=f"backward, rank {rank} called {', '.join(backward)}",
        think="what a rank's gradient needs that it does not have yet",
    )


# 16b-one-too-many ---------------------------------------------------------------------


@exercise(
    "16b-one-too-many",
    in_ranks=True,
    when_hung="whether all ranks call the same collectives with the same shapes",
)
def check_16b_one_too_many(complete_gradients):
    think = "what this line needs; where a rank was killed, which tensors have the "
    think += "same shape on all ranks"
    for ranks in 2, 3, 1, 4:
        with trying(f"complete_gradients(block) {in_ranks(ranks)}", think=think):
            complete = try_complete_sequence_blocks
            found = run_trial(complete, complete_gradients, ranks=ranks)
        for of_ranks in zip(*found, strict=True):
            _expect_block_gradients(of_ranks)


def _expect_block_gradients(of_ranks: Sequence[SequenceBlockNotes]) -> None:
    ranks, width = len(of_ranks), of_ranks[0].width
    with trying(
        f"complete_gradients(block) of width {width} {in_ranks(ranks)}"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            think = "what is to be summed: parameters, or their gradients"
            _expect_arguments_kept(expect, notes, think)
            gradients = zip(notes.names, notes.got, notes.expected, strict=True)
            for name, got, expected in gradients:
                _expect_one_block_gradient(expect, rank, name, got, expected)
            others = [name for name in notes.collectives if name != "all_reduce"]
            expect(
                not others,
                got=f"on rank {rank}, {', '.join(others)}",
                think="what all ranks need in the end: the sum, by all_reduce",
            )


def _expect_one_block_gradient(expect, rank: int, name: str, got, expected) -> None:
    where = f"on rank {rank}, the gradient of {name}"
    think = "which positions this parameter has seen on this rank, and whether all "
    think += "ranks hold the same one; if so, its .grad becomes the sum of all ranks' "
    think += "parts, each once, not the mean over ranks"
    if not name.endswith(("norm.weight", "norm.bias", "out.bias", "narrow.bias")):
        think = "whose neurons these are: the ranks' gradients of different neurons "
        think += "don't add up to anything"
    expect_tensor(expect, where, got, expected, think, CLOSE)
