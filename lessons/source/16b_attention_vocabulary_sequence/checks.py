"""The checks of lesson 16b: a loss without the logits, one sum too many, a ring."""

from collections.abc import Sequence

import torch

from parallel_by_hand.tensor_parallel.ring_attention import attend_to_piece
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import run_trial

from .rings_losses_and_blocks import (
    CrossEntropyCase,
    CrossEntropyNotes,
    RingAttentionCase,
    RingAttentionNotes,
    SequenceBlockCase,
    SequenceBlockNotes,
    try_attention_rounds,
    try_complete_sequence_blocks,
    try_cross_entropy,
)

RANKS = 2, 3, 1, 5
MANY = {5: 4}  # fewer cases with more ranks than most computers have cores
SINGLE, DOUBLE = torch.float32, torch.float64


def _rings_and_losses_close(
    got: torch.Tensor, expected: torch.Tensor, size: float = 1.0
) -> bool:
    """Up to rounding, where numbers of this size have been subtracted."""
    close = 1e-4 if expected.dtype == SINGLE else 1e-9
    got = got.to(expected.dtype)
    return torch.allclose(got, expected, close, close * max(1, size / 100))


def _expect_ring_or_loss_tensor(
    expect, where: str, got, expected: torch.Tensor
) -> None:
    """A tensor with the expected shape and type."""
    a_tensor = isinstance(got, torch.Tensor)
    expect(a_tensor, got=f"{where}: {got}", think="what is asked for: a tensor")
    expect(
        got.shape == expected.shape,
        got=f"{where} has shape {tuple(got.shape)}, not {tuple(expected.shape)}",
        think="which shape the text asks for",
    )
    expect(
        got.dtype == expected.dtype,
        got=f"{where} has the type {got.dtype}, not {expected.dtype}",
        think="what makes a tensor of another type on the way",
    )


def _numbers_of_ring_or_loss(tensor: torch.Tensor) -> str:
    first = ", ".join(f"{number:.4g}" for number in tensor.flatten()[:3].tolist())
    return f"[{first}{', ...' if tensor.numel() > 3 else ''}]"


def _expect_rings_and_losses_unchanged(expect, notes) -> None:
    expect(
        not notes.changed,
        got=f"other numbers in {', '.join(notes.changed)} than before the call",
        think="which operations work in place, and on whose tensor",
    )


def _expect_rings_and_losses_awaited(expect, notes) -> None:
    expect(
        not notes.not_awaited,
        got="a collective that was begun with async_op=True, and no wait() for it",
        think="when its result is there",
    )


# 16b-cross-entropy --------------------------------------------------------------------

LOSSES = [
    CrossEntropyCase(4, 6, DOUBLE),
    CrossEntropyCase(1, 0, DOUBLE),
    CrossEntropyCase(19, 12, SINGLE),
    CrossEntropyCase(6, 9, DOUBLE, scale=2000),
    CrossEntropyCase(5, 7, SINGLE, scale=3, shift=500),
    CrossEntropyCase(5, 7, DOUBLE, shift=-3000),
    CrossEntropyCase(7, 8, DOUBLE, gap=3000),  # on rank 0 every exponential is 0
    CrossEntropyCase(3, 4, SINGLE, gap=-300),
    CrossEntropyCase(4, 6, DOUBLE),  # once more, with other numbers
]


@exercise(
    "16b-cross-entropy",
    in_ranks=True,
    when_hung="whether all ranks call the same collectives, also where the label is "
    "another rank's word",
)
def check_16b_cross_entropy(parallel_cross_entropy):
    for ranks in RANKS:
        cases = LOSSES[: MANY.get(ranks)]
        think = "whether all ranks give a collective tensors of the same shape, and "
        think += "what a label means that is not this rank's word"
        args = parallel_cross_entropy, cases
        with trying(
            f"parallel_cross_entropy(logits, labels, first) in {ranks} ranks",
            think=think,
        ):
            found = run_trial(try_cross_entropy, *args, ranks=ranks)
        for case, of_ranks in zip(cases, zip(*found, strict=True), strict=True):
            _expect_cross_entropy(case, of_ranks)


def _describe_cross_entropy(case: CrossEntropyCase, ranks: int) -> str:
    kind = "logits"
    if case.scale > 1 or case.shift or case.gap:
        kind = "large logits" if not case.gap else "rank 0's logits far from the others"
    words = ranks + case.more_words
    return f"{kind}, {case.positions} positions, {words} words in {ranks} ranks"


def _expect_cross_entropy(
    case: CrossEntropyCase, of_ranks: Sequence[CrossEntropyNotes]
) -> None:
    ranks = len(of_ranks)
    with trying(_describe_cross_entropy(case, ranks)) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_rings_and_losses_unchanged(expect, notes)
            _expect_rings_and_losses_awaited(expect, notes)
            _expect_cross_entropy_number(expect, rank, notes, case, ranks)
        for rank, notes in enumerate(of_ranks):
            _expect_cross_entropy_gradient(expect, rank, notes)
            _expect_cross_entropy_messages(expect, rank, notes)


def _expect_cross_entropy_number(
    expect, rank: int, notes: CrossEntropyNotes, case: CrossEntropyCase, ranks: int
) -> None:
    got, expected = notes.got[0], notes.expected[0]
    if isinstance(got, torch.Tensor) and got.numel() == 1:
        got = got.reshape(())  # one number, of any shape
    _expect_ring_or_loss_tensor(expect, f"on rank {rank}, the loss", got, expected)
    think = "which numbers every rank adds to each of the sums"
    if not got.isfinite():
        think = "the largest number whose exponential is finite, and the smallest "
        think += "whose exponential is not 0: which number all ranks subtract"
    elif _rings_and_losses_close(got * ranks, expected, notes.size):
        think = "what is summed over the ranks already, and what is a mean"
    elif case.positions > 1 and _rings_and_losses_close(
        got, expected * case.positions, notes.size
    ):
        think = "the mean over all positions"
    elif ranks > 1:
        think += ", that each subtracts the same number first, and whose word the "
        think += "label is"
    expect(
        _rings_and_losses_close(got, expected, notes.size),
        got=f"on rank {rank}, a loss of {got.item():.6g} instead of "
        f"{expected.item():.6g}",
        think=think,
    )


def _expect_cross_entropy_gradient(expect, rank: int, notes: CrossEntropyNotes) -> None:
    where = f"on rank {rank}, the gradient of logits"
    got, expected = notes.got[1], notes.expected[1]
    expect(
        isinstance(got, torch.Tensor),
        got=f"{where}: {got}",
        think="by which functions autograd can go back from the loss to the logits",
    )
    expect(
        not notes.unknown_to_autograd,
        got="a warning: autograd has gone back through dist.all_reduce, of which it "
        "knows nothing",
        think="what sum_over_ranks does backward, and what detach() is for",
    )
    expect(
        _rings_and_losses_close(got, expected),
        got=f"{where}: {_numbers_of_ring_or_loss(got)} instead of "
        f"{_numbers_of_ring_or_loss(expected)}",
        think="the softmax, less 1 at the label: what of it flows through the largest "
        "number, through words of other ranks, and how often it is summed",
    )


def _expect_cross_entropy_messages(expect, rank: int, notes: CrossEntropyNotes) -> None:
    forward, backward = notes.numbers
    names = ", ".join(notes.collectives[0])
    expect(
        forward <= 3,
        got=f"forward, rank {rank} handed over {forward:.3g} numbers for each "
        f"position: {names}",
        think="which three numbers of each position the ranks have to agree on",
    )
    expect(
        not backward and not notes.collectives[1],
        got=f"backward, rank {rank} called {', '.join(notes.collectives[1])}",
        think="what a rank's gradient needs that it does not have yet",
    )


# 16b-one-too-many ---------------------------------------------------------------------

BLOCKS = [
    SequenceBlockCase(12, 12, 2),
    SequenceBlockCase(8, 8, 1, blocks=3),
    SequenceBlockCase(12, 6, 3, frozen="norm.weight"),
]
BLOCK_TRIES = (  # ranks, no more than heads, and cases; whoever forgets both what is
    (2, BLOCKS[:2]),  # complete and what is frozen first hears of what is complete
    (2, BLOCKS[2:]),
    (3, BLOCKS),
    (1, BLOCKS),
    (4, BLOCKS[:2]),
)


@exercise(
    "16b-one-too-many",
    in_ranks=True,
    when_hung="whether all ranks call the same collectives with the same shapes",
)
def check_16b_one_too_many(complete_gradients):
    for ranks, cases in BLOCK_TRIES:
        think = "what this line needs, and which parameters have no gradient; where a "
        think += "rank was killed, which tensors have the same shape on all ranks"
        args = complete_gradients, cases
        with trying(f"complete_gradients(block) in {ranks} ranks", think=think):
            found = run_trial(try_complete_sequence_blocks, *args, ranks=ranks)
        for case, of_ranks in zip(cases, zip(*found, strict=True), strict=True):
            _expect_block_gradients(case, of_ranks)


def _expect_block_gradients(
    case: SequenceBlockCase, of_ranks: Sequence[SequenceBlockNotes]
) -> None:
    ranks, frozen = len(of_ranks), f", {case.frozen} frozen" if case.frozen else ""
    call = f"{case.blocks} of width {case.width} with {case.heads} heads{frozen}"
    with trying(f"complete_gradients(block): {call} in {ranks} ranks") as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_rings_and_losses_unchanged(expect, notes)
            _expect_rings_and_losses_awaited(expect, notes)
            for name, got, expected in zip(
                notes.names, notes.got, notes.expected, strict=True
            ):
                _expect_one_block_gradient(expect, rank, ranks, name, got, expected)
            others = [name for name in notes.collectives if name != "all_reduce"]
            expect(
                not others and not notes.messages,
                got=f"on rank {rank}, {', '.join(others) or 'messages'}",
                think="what all ranks need in the end: the sum, by all_reduce",
            )
            calls = len(notes.collectives)
            expect(
                calls <= notes.needed,
                got=f"on rank {rank}, {calls} calls of all_reduce for {notes.needed} "
                "gradients that are summands",
                think="which gradients are complete before",
            )


def _expect_one_block_gradient(expect, rank, ranks, name: str, got, expected) -> None:
    where = f"on rank {rank}, the gradient of {name}"
    if isinstance(expected, str):
        expect(
            got == expected,
            got=f"{where} is a tensor: it is frozen",
            think="which parameters have no gradient",
        )
        return
    _expect_ring_or_loss_tensor(expect, where, got, expected)
    think = "which positions this parameter has seen on this rank, and whether all "
    think += "ranks hold the same one"
    if not name.endswith(("norm.weight", "norm.bias", "out.bias", "narrow.bias")):
        think = "whose neurons these are: the ranks' gradients of different neurons "
        think += "don't add up to anything"
    elif _rings_and_losses_close(got * ranks, expected):
        think = "the loss: the sum over all positions, not the mean over ranks"
    expect(
        _rings_and_losses_close(got, expected),
        got=f"{where}: {_numbers_of_ring_or_loss(got)} instead of "
        f"{_numbers_of_ring_or_loss(expected)}",
        think=think,
    )


# 16b-ring -----------------------------------------------------------------------------

MERGES = [  # queries, keys of one, keys of other, d, type, scale
    (3, 4, 4, 2, DOUBLE, 1.0),
    (5, 1, 6, 3, SINGLE, 1.0),
    (4, 3, 5, 4, DOUBLE, 60.0),
]
FAR_MERGES = [  # log-sums of one, log-sums of other
    ([5000.0], [4999.0]),
    ([-5000.0], [-5001.0]),
    ([0.0], [-3000.0]),
    ([2.0, 0.0, -4.0], [1.0, 5000.0, -4.0]),  # far apart for one query only
    ([5000.0, -5000.0], [4998.0, -4999.0]),
]
RINGS = [
    RingAttentionCase(3, 2, DOUBLE),
    RingAttentionCase(6, 5, DOUBLE),
    RingAttentionCase(4, 8, SINGLE),
    RingAttentionCase(5, 3, DOUBLE, scale=60),
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
            args = attend_round, RINGS[: MANY.get(ranks)]
            found = run_trial(try_attention_rounds, *args, ranks=ranks)
        for case, of_ranks in zip(args[1], zip(*found, strict=True), strict=True):
            _expect_ring_attention(case, of_ranks)


def _check_attention_merge(
    merge_seen, seed, queries, first, second, d, dtype, scale
) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(n, d, generator=generator, dtype=dtype)
        for n in (queries, first + second, first + second)
    )
    query, value = scale * query, value + 1
    pieces = zip(key.split([first, second]), value.split([first, second]), strict=True)
    seen = [attend_to_piece(query, *piece) for piece in pieces]
    expected = attend_to_piece(query, key, value)
    for one, other, names in ((0, 1, "one, other"), (1, 0, "other, one")):
        args = tuple(seen[one]), tuple(seen[other])
        with trying(
            f"merge_seen({names}): {queries} queries, {first} and {second} keys",
            args,
            think="what each pair holds",
        ) as expect:
            _expect_merged_attention_pair(expect, merge_seen(*args), expected)


def _check_far_attention_merge(merge_seen, *log_sums: list[float]) -> None:
    logs = torch.tensor(log_sums, dtype=DOUBLE)  # (2, queries)
    mixed = torch.arange(logs.numel() * 2, dtype=DOUBLE).view(*logs.shape, 2) - 1.5
    expected = (logs.softmax(0)[..., None] * mixed).sum(0), logs.logsumexp(0)
    args = (mixed[0], logs[0]), (mixed[1], logs[1])
    named = " and ".join(_numbers_of_ring_or_loss(log) for log in logs)
    with trying(
        f"merge_seen with the log-sums {named}", args, think="what each pair holds"
    ) as expect:
        _expect_merged_attention_pair(expect, merge_seen(*args), expected)


def _expect_merged_attention_pair(expect, got, expected) -> None:
    expect(
        isinstance(got, tuple | list) and len(got) == 2,
        got=got,
        think="what is to be returned: a mixture and a log-sum, as a pair",
    )
    for name, mine, wanted in zip(("mixed", "log_sum"), got, expected, strict=True):
        _expect_ring_or_loss_tensor(expect, name, mine, wanted)
        think = "how much each set counts: the share that it has of the whole softmax"
        if name == "log_sum":
            think = "the logarithm of the sum of both sums"
        if not mine.isfinite().all():
            think = "which exponentials are finite: only differences of log-sums are "
            think += "small enough, and of these only the ones that are not above 0"
        expect(
            _rings_and_losses_close(mine, wanted, wanted.abs().max().item()),
            got=f"{name}: {_numbers_of_ring_or_loss(mine)} instead of "
            f"{_numbers_of_ring_or_loss(wanted)}",
            think=think,
        )


def _expect_ring_attention(
    case: RingAttentionCase, of_ranks: Sequence[RingAttentionNotes]
) -> None:
    ranks = len(of_ranks)
    with trying(
        f"attend_round: {case.positions} positions on each of {ranks} ranks"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_rings_and_losses_unchanged(expect, notes)
            where = f"on rank {rank}, the result"
            _expect_ring_or_loss_tensor(expect, where, notes.got, notes.expected)
            expect(
                _rings_and_losses_close(notes.got, notes.expected),
                got=f"{where}: {_numbers_of_ring_or_loss(notes.got)} instead of "
                f"{_numbers_of_ring_or_loss(notes.expected)}",
                think="whether this rank's queries have seen every rank's keys, each "
                "once",
            )
        for rank, notes in enumerate(of_ranks):
            _expect_ring_attention_messages(expect, rank, ranks, case, notes)
            piece = max(case.positions**2, case.positions * case.d)
            expect(
                notes.largest <= max(2 * piece, 64),
                got=f"on rank {rank}, a tensor of {notes.largest} numbers, where a "
                f"piece has {piece}",
                think="what can be forgotten as soon as a piece has been merged",
            )


def _expect_ring_attention_messages(
    expect, rank, ranks, case: RingAttentionCase, notes
) -> None:
    expect(
        not notes.collectives,
        got=f"on rank {rank}, {', '.join(notes.collectives)}",
        think="who holds all keys after a collective, and for how long",
    )
    others = set(notes.sent_to) - {(rank + 1) % ranks}
    expect(
        not others,
        got=f"rank {rank} sent to {sorted(others)}",
        think="which way keys and values go: to the right",
    )
    size = 2 * case.positions * case.d * (4 if case.dtype == SINGLE else 8)
    sent = sum(notes.sent_to.values())
    expect(
        sent <= (ranks - 1) * size,
        got=f"rank {rank} sent {sent} bytes; its keys and values have {size}",
        think="how many ranks have to see them: what has to travel, and how often",
    )
