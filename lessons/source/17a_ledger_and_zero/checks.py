"""The checks of lesson 17a: which stage fits, the sharded update, clipping."""

import random
from collections.abc import Sequence

import torch

from parallel_by_hand.sharding.ledger import STRATEGIES, state_bytes
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import run_trial

from .zero_updates_and_clips import (
    ShardClipCase,
    ShardClipNotes,
    ZeroUpdateCase,
    ZeroUpdateNotes,
    try_shard_clips,
    try_zero_updates,
)

RANKS = 2, 3, 1, 5
SINGLE, DOUBLE = torch.float32, torch.float64
GB = 10**9


def _zero_shards_close(got: torch.Tensor, expected: torch.Tensor) -> bool:
    close = 1e-4 if expected.dtype == SINGLE else 1e-9
    return torch.allclose(got.to(expected.dtype), expected, close, close)


def _zero_shard_numbers(tensor: torch.Tensor) -> str:
    digits = 4 if tensor.dtype == SINGLE else 10
    some = tensor.flatten()[:3].tolist()
    first = ", ".join(f"{number:.{digits}g}" for number in some)
    return f"[{first}{', ...' if tensor.numel() > 3 else ''}]"


# 17a-stage ----------------------------------------------------------------------------


def _zero_stage_cases() -> list[tuple[int, int, int, int]]:
    """(numbers, ranks, activations, budget): at each edge, by hand, large and drawn."""
    cases = [(8, 4, 10, 60), (8, 4, 10, 42), (8, 4, 10, 41), (1, 1, 0, 16)]
    cases += [(7_500_000_000, 64, 10 * GB, budget * GB) for budget in (130, 42, 40, 27)]
    cases += [(10**12, 1000, 5 * GB, 21 * GB), (10**12, 1000, 5 * GB, 21 * GB - 1)]
    drawn = random.Random(17)
    for ranks in (1, 2, 3, 8, 1024):
        numbers = ranks * drawn.randint(1, 10**7)
        activations = drawn.choice((0, drawn.randint(1, 16 * numbers)))
        for strategy in STRATEGIES:
            needed = state_bytes(numbers, ranks, strategy).total + activations
            cases += [
                (numbers, ranks, activations, max(1, needed + gap)) for gap in (0, -1)
            ]
    return cases


def _zero_stage(numbers: int, ranks: int, activations: int, budget: int) -> int | None:
    for stage, strategy in enumerate(STRATEGIES):
        if state_bytes(numbers, ranks, strategy).total + activations <= budget:
            return stage
    return None


@exercise("17a-stage")
def check_17a_stage(smallest_stage):
    for case in _zero_stage_cases():
        numbers, ranks, activations, budget = case
        expected = _zero_stage(*case)
        with trying(
            f"smallest_stage({numbers}, {ranks}, {activations}, {budget})"
        ) as expect:
            got = smallest_stage(*case)
            came_back = "None" if got is None else got  # here None may be meant
            if expected is None:
                expect(got is None, got=got, think="what a rank holds in stage 3")
                continue
            expect(
                as_number(got) is not None,
                got=came_back,
                think=f"whether stage {expected} fits, to the last byte",
            )
            expect(
                got == expected,
                got=got,
                think=_think_of_zero_stage(case, got, expected),
            )


def _think_of_zero_stage(case: tuple, got, expected: int) -> str:
    numbers, ranks, *_ = case
    if got not in range(4):
        return "what is asked for: 0, 1, 2, 3 or None"
    needed = state_bytes(numbers, ranks, STRATEGIES[int(got)]).total
    if got < expected:
        return (
            f"stage {got}: its state is {needed} bytes on each rank, and activations "
            "come on top of it, whole"
        )
    return (
        f"stage {expected}: which of the parts 2, 2 and 12 it divides by the ranks, "
        "and that it fits if it takes the budget to the last byte"
    )


# 17a-update ---------------------------------------------------------------------------

UPDATES = [
    ZeroUpdateCase(1, 1, 1.0, DOUBLE),
    ZeroUpdateCase(3, 3, 0.1, DOUBLE),
    ZeroUpdateCase(7, 4, 0.5, SINGLE),
    ZeroUpdateCase(16, 2, 0.01, DOUBLE),
    ZeroUpdateCase(2, 2, 0.5, DOUBLE, resting=True),
]


@exercise(
    "17a-update",
    in_ranks=True,
    when_hung="whether every rank calls both rings, in one order, whatever it holds",
)
def check_17a_update(sharded_update):
    for ranks in RANKS:
        args = sharded_update, UPDATES
        think = "which lengths the whole and a shard have"
        with trying(f"sharded_update in {ranks} ranks", think=think):
            found = run_trial(try_zero_updates, *args, ranks=ranks)
        for case, of_ranks in zip(UPDATES, zip(*found, strict=True), strict=True):
            for step, notes in enumerate(zip(*of_ranks, strict=True)):
                _expect_zero_update(case, step, notes)


def _expect_zero_update(
    case: ZeroUpdateCase, step: int, of_ranks: Sequence[ZeroUpdateNotes]
) -> None:
    ranks = len(of_ranks)
    with trying(
        f"step {step + 1} with {case.shard * ranks} parameters in {ranks} ranks"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_zero_update_messages(expect, case, rank, ranks, notes)
            _expect_zero_update_in_place(expect, rank, notes)
        for rank, notes in enumerate(of_ranks):
            expect(
                _zero_shards_close(notes.momentum, notes.expected_momentum),
                got=f"on rank {rank}, momentum {_zero_shard_numbers(notes.momentum)} "
                f"instead of {_zero_shard_numbers(notes.expected_momentum)}",
                think="the mean of all gradients, of which the ring gives the sum; and "
                "whether momentum is changed in place, for the next call",
            )
        for rank, notes in enumerate(of_ranks):
            expect(
                _zero_shards_close(notes.parameters, notes.expected),
                got=f"on rank {rank}, parameters "
                f"{_zero_shard_numbers(notes.parameters)} instead of "
                f"{_zero_shard_numbers(notes.expected)}",
                think=_think_of_zero_update(notes),
            )
            expect(
                torch.equal(notes.parameters, of_ranks[0].parameters),
                got=f"other parameters on rank {rank} than on rank 0",
                think="what makes the ranks' parameters equal to the last bit",
            )
            expect(
                notes.returned == "NoneType",
                got=f"a return value: {notes.returned}",
                think="what is asked for: nothing is returned",
            )


def _expect_zero_update_in_place(expect, rank: int, notes: ZeroUpdateNotes) -> None:
    expect(
        not notes.moved,
        got=f"on rank {rank}, {' and '.join(notes.moved)} in other memory than before",
        think="who holds a view of the old memory, and what they see now",
    )


def _expect_zero_update_messages(
    expect, case: ZeroUpdateCase, rank: int, ranks: int, notes: ZeroUpdateNotes
) -> None:
    expect(
        not notes.collectives,
        got=f"rank {rank} called {', '.join(notes.collectives)}",
        think="which two functions are all that may send",
    )
    expect(
        not notes.not_awaited,
        got="a message that was begun and never waited for",
        think="which two functions are all that may send",
    )
    chunk = case.shard * case.dtype.itemsize
    expect(
        notes.bytes_sent == 2 * (ranks - 1) * chunk,
        got=f"rank {rank} sent {notes.bytes_sent} bytes, not {2 * (ranks - 1) * chunk}",
        think="one reduce-scatter and one all-gather: what has to travel in each",
    )


def _think_of_zero_update(notes: ZeroUpdateNotes) -> str:
    if _zero_shards_close(notes.parameters, notes.wrong_gradient):
        return "the mean of the gradients: the ring returns their sum"
    return (
        "which shard this rank updates, in the memory of `parameters`, and that all "
        "shards are gathered after the update"
    )


# 17a-clip -----------------------------------------------------------------------------

SAME_COUNT = [ShardClipCase((2, 3), 1.0, 0.5, DOUBLE, fewer=False)]
ZEROS = [ShardClipCase((3,), 0.0, 1.0, SINGLE)]
CLIPS = [
    ShardClipCase((2,), 1.0, 0.5, DOUBLE),
    ShardClipCase((3, 1), 10.0, 1.0, SINGLE),
    ShardClipCase((4, 0, 2), 1.0, 0.01, DOUBLE),
    ShardClipCase((5, 2), 0.1, 100.0, DOUBLE),  # short enough
    ShardClipCase((0,), 1.0, 1.0, DOUBLE),  # rank 0 and all others have no number
    ShardClipCase((3,), 0.0, 1.0, DOUBLE),  # zeros
    ShardClipCase(
        (6, 6), 1.0, 3.0, DOUBLE
    ),  # each rank's part alone may be short enough
]


@exercise(
    "17a-clip",
    in_ranks=True,
    when_hung="whether every rank calls the all-reduce, also one whose part is short",
)
def check_17a_clip(clip_shards):
    cases = [(2, SAME_COUNT), (2, ZEROS), *((ranks, CLIPS) for ranks in RANKS)]
    for ranks, clips in cases:
        args = clip_shards, clips
        call = f"clip_shards in {ranks} ranks"
        think = "what a rank has of the gradient: one or more shards, maybe empty"
        if clips is ZEROS:
            call += ", a gradient of zeros"
            think = "the length of zeros, and what is divided by it"
        with trying(call, think=think):
            found = run_trial(try_shard_clips, *args, ranks=ranks)
        for case, of_ranks in zip(clips, zip(*found, strict=True), strict=True):
            _expect_clip_of_shards(case, of_ranks)


def _expect_clip_of_shards(
    case: ShardClipCase, of_ranks: Sequence[ShardClipNotes]
) -> None:
    ranks, length = len(of_ranks), of_ranks[0].length
    with trying(
        f"a gradient of length {length:.4g} in {ranks} ranks, longest {case.longest}"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_clip_sends_one_number(expect, rank, ranks, notes)
        for rank, notes in enumerate(of_ranks):
            returned = as_number(notes.returned)
            expect(
                returned is not None,
                got=f"on rank {rank}: {notes.returned!r}",
                think="what is asked for: the length, as a float",
            )
            expect(
                abs(returned - length) <= 1e-4 * length,
                got=f"on rank {rank}, length {returned:.4g} instead of {length:.4g}",
                think="which numbers of the shards may be added up over all ranks, and "
                "what is returned: the length of the whole before it is clipped",
            )
            for got, expected in zip(notes.shards, notes.expected, strict=True):
                expect(
                    _zero_shards_close(got, expected),
                    got=f"on rank {rank}, a shard {_zero_shard_numbers(got)} "
                    f"instead of {_zero_shard_numbers(expected)}",
                    think=_think_of_clipped_shard(got, expected),
                )


def _think_of_clipped_shard(got: torch.Tensor, expected: torch.Tensor) -> str:
    if torch.allclose(got, expected, 1e-5, 1e-6):
        return "of what type the number is that is sent, and how many digits it has"
    return "by what all shards are multiplied, in place, and when"


def _expect_clip_sends_one_number(
    expect, rank: int, ranks: int, notes: ShardClipNotes
) -> None:
    calls = ", ".join(notes.collectives + ["send"] * notes.messages) or "nothing"
    expect(
        (notes.collectives == ["all_reduce"] and not notes.messages)
        or (ranks == 1 and calls == "nothing"),
        got=f"rank {rank} sent {calls}",
        think="one all-reduce on every rank: what has to travel",
    )
    expect(
        notes.travelled <= 1,
        got=f"an all-reduce of {notes.travelled} numbers",
        think="one number that each rank can compute from its own shards",
    )
    expect(
        not notes.not_awaited,
        got="an all-reduce that was begun and never waited for",
        think="when its sum is there",
    )
