"""The checks of lesson 16b: a loss without the logits, one sum too many, a ring."""

from collections.abc import Sequence

import torch

from parallel_by_hand.tensor_parallel.ring_attention import attend_to_piece
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_tensor, run_trial

from .rings_losses_and_blocks import (
    CrossEntropyCase,
    CrossEntropyNotes,
    RingAttentionNotes,
    SequenceBlockNotes,
    try_attention_rounds,
    try_complete_sequence_blocks,
    try_cross_entropy,
)

RANKS = 2, 3, 1, 5


CLOSE = 1e-4


def _expect_arguments_kept(expect, notes) -> None:
    expect(
        not notes.changed,
        got=f"other numbers in {', '.join(notes.changed)} than before the call",
        think="which operations work in place, and on whose tensor",
    )


# 16b-cross-entropy --------------------------------------------------------------------

LOSSES = [
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
    think = "what this line needs, and what a label means that is not this rank's word"
    for ranks in RANKS:
        with trying(f"{call} in {ranks} ranks", think=think):
            args = parallel_cross_entropy, LOSSES
            found = run_trial(try_cross_entropy, *args, ranks=ranks)
        for case, of_ranks in zip(LOSSES, zip(*found, strict=True), strict=True):
            _expect_cross_entropy(case, of_ranks)


def _expect_cross_entropy(
    case: CrossEntropyCase, of_ranks: Sequence[CrossEntropyNotes]
) -> None:
    ranks = len(of_ranks)
    kind = "large logits" if case.scale > 1 else "logits"
    kind = "rank 0's logits far from the others" if case.gap else kind
    words = ranks + case.more_words
    with trying(
        f"{kind}, {case.positions} positions, {words} words in {ranks} ranks"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_arguments_kept(expect, notes)
            _expect_cross_entropy_number(expect, rank, notes, ranks)
        for rank, notes in enumerate(of_ranks):
            _expect_cross_entropy_gradient(expect, rank, notes)
            _expect_cross_entropy_messages(expect, rank, notes)


def _expect_cross_entropy_number(
    expect, rank: int, notes: CrossEntropyNotes, ranks: int
) -> None:
    got, expected = notes.got[0], notes.expected[0]
    if isinstance(got, torch.Tensor):
        shape = f"on rank {rank}, a loss of shape {tuple(got.shape)}"
        expect(got.numel() == 1, got=shape, think="the mean, over all positions")
        got = got.reshape(())
    think = "which numbers every rank adds to each of the sums, and their mean"
    if isinstance(got, torch.Tensor) and not got.isfinite().all():
        think = "the largest number whose exponential is finite, and the smallest "
        think += "whose exponential is not 0: which number all ranks subtract"
    elif ranks > 1:
        think += ", that each subtracts the same number first, and whose word the "
        think += "label is"
    expect_tensor(expect, f"on rank {rank}, the loss", got, expected, think, CLOSE)


def _expect_cross_entropy_gradient(expect, rank: int, notes: CrossEntropyNotes) -> None:
    where = f"on rank {rank}, the gradient of logits"
    got, expected = notes.got[1], notes.expected[1]
    expect(
        isinstance(got, torch.Tensor),
        got=f"{where}: {got}",
        think="by which functions autograd can go back from the loss to the logits",
    )
    think = "the softmax, less 1 at the label: what of it flows through the largest "
    think += "number, through words of other ranks, and how often it is summed"
    expect_tensor(expect, where, got, expected, think, CLOSE)


def _expect_cross_entropy_messages(expect, rank: int, notes: CrossEntropyNotes) -> None:
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
        with trying(f"complete_gradients(block) in {ranks} ranks", think=think):
            complete = try_complete_sequence_blocks
            found = run_trial(complete, complete_gradients, ranks=ranks)
        for of_ranks in zip(*found, strict=True):
            _expect_block_gradients(of_ranks)


def _expect_block_gradients(of_ranks: Sequence[SequenceBlockNotes]) -> None:
    ranks, width = len(of_ranks), of_ranks[0].width
    with trying(
        f"complete_gradients(block) of width {width} in {ranks} ranks"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_arguments_kept(expect, notes)
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
    think += "ranks hold the same one; the loss is the sum over all positions, not the "
    think += "mean over ranks"
    if not name.endswith(("norm.weight", "norm.bias", "out.bias", "narrow.bias")):
        think = "whose neurons these are: the ranks' gradients of different neurons "
        think += "don't add up to anything"
    expect_tensor(expect, where, got, expected, think, CLOSE)


# 16b-ring -----------------------------------------------------------------------------

MERGES = [(3, 4, 4, 2), (4, 3, 5, 4)]  # queries, keys of one, keys of other, d
FAR_MERGES = [  # log-sums of one, log-sums of other
    ([5000.0], [4999.0]),
    ([2.0, 0.0, -4.0], [1.0, 5000.0, -4.0]),  # far apart for one query only
]


@exercise(
    "16b-ring",
    in_ranks=True,
    when_hung="whether all ranks call pass_on equally often",
)
def check_16b_ring(merge_seen, attend_round):
    for seed, case in enumerate(MERGES):
        _check_attention_merge(merge_seen, seed, *case)
    for one, other in FAR_MERGES:
        _check_far_attention_merge(merge_seen, one, other)
        _check_far_attention_merge(merge_seen, other, one)
    for ranks in RANKS:
        think = "what this line needs; with one rank, how often there is to be passed"
        with trying(f"attend_round(query, key, value) in {ranks} ranks", think=think):
            found = run_trial(try_attention_rounds, attend_round, ranks=ranks)
        for of_ranks in zip(*found, strict=True):
            _expect_ring_attention(of_ranks)


def _check_attention_merge(merge_seen, seed, queries, first, second, d) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(n, d, generator=generator, dtype=torch.double)
        for n in (queries, first + second, first + second)
    )
    pieces = zip(key.split([first, second]), value.split([first, second]), strict=True)
    args = tuple(attend_to_piece(query, *piece) for piece in pieces)
    call = f"merge_seen(one, other): {queries} queries, {first} and {second} keys"
    with trying(call, args, think="what each pair holds") as expect:
        expected = attend_to_piece(query, key, value)
        _expect_merged_attention_pair(expect, merge_seen(*args), expected)


def _check_far_attention_merge(merge_seen, *log_sums: list[float]) -> None:
    logs = torch.tensor(log_sums, dtype=torch.double)  # (2, queries)
    mixed = torch.arange(logs.numel() * 2).double().view(*logs.shape, 2) - 1.5
    expected = (logs.softmax(0)[..., None] * mixed).sum(0), logs.logsumexp(0)
    args = (mixed[0], logs[0]), (mixed[1], logs[1])
    call = "merge_seen with the log-sums {} and {}".format(*log_sums)
    with trying(call, args, think="what each pair holds") as expect:
        _expect_merged_attention_pair(expect, merge_seen(*args), expected)


def _expect_merged_attention_pair(expect, got, expected) -> None:
    expect(
        isinstance(got, tuple | list) and len(got) == 2,
        got=got,
        think="what is to be returned: a mixture and a log-sum, as a pair",
    )
    shapes = [getattr(part, "shape", None) for part in got]
    expect(
        shapes != [part.shape for part in expected[::-1]],
        got="the log-sums, then the mixtures",
        think="which of both comes first in the pair",
    )
    for name, mine, wanted in zip(("mixed", "log_sum"), got, expected, strict=True):
        think = "how much each set counts: the share that it has of the whole softmax"
        if name == "log_sum":
            think = "the logarithm of the sum of both sums"
        if isinstance(mine, torch.Tensor) and not mine.isfinite().all():
            think = "which exponentials are finite: only differences of log-sums are "
            think += "small enough, and of these only the ones that are not above 0"
        expect_tensor(expect, name, mine, wanted, think, CLOSE)


def _expect_ring_attention(of_ranks: Sequence[RingAttentionNotes]) -> None:
    ranks, positions = len(of_ranks), len(of_ranks[0].expected)
    with trying(
        f"attend_round: {positions} positions on each of {ranks} ranks"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_arguments_kept(expect, notes)
            where = f"on rank {rank}, the result"
            think = "whether this rank's queries have seen every rank's keys, each once"
            pair = notes.got, notes.expected
            expect_tensor(expect, where, *pair, think, CLOSE)
        for rank, notes in enumerate(of_ranks):
            _expect_ring_attention_messages(expect, rank, ranks, notes)
            piece = max(positions**2, notes.expected.numel())
            expect(
                notes.largest <= max(2 * piece, 64),
                got=f"on rank {rank}, a tensor of {notes.largest} numbers, where a "
                f"piece has {piece}",
                think="what can be forgotten as soon as a piece has been merged",
            )


def _expect_ring_attention_messages(expect, rank: int, ranks: int, notes) -> None:
    size = 2 * notes.expected.nbytes
    expect(
        notes.bytes_sent <= (ranks - 1) * size,
        got=f"rank {rank} sent {notes.bytes_sent} bytes; its keys and values have "
        f"{size}",
        think="how many ranks have to see them: what has to travel, and how often",
    )
