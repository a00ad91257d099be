"""The checks of lesson 17a: which stage fits, the sharded update, clipping."""

import random
from collections.abc import Sequence

import torch

from parallel_by_hand.sharding.ledger import STRATEGIES, state_bytes
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_tensor, in_ranks, run_trial

from .zero_updates_and_clips import (
    ShardClipCase,
    ShardClipNotes,
    ZeroUpdateCase,
    ZeroUpdateNotes,
    try_shard_clips,
    try_zero_updates,
)

RANKS = 2, 3, 1, 5
GB = 10**9


# 17a-stage ----------------------------------------------------------------------------


def _zero_stage_cases() -> list[tuple[int, int, int, int]]:
    """(numbers, ranks, activations, budget): by hand, large, and at each edge."""
    cases = [(8, 4, 10, 60)]
    cases += [(7_500_000_000, 64, 10 * GB, budget * GB) for budget in (130, 42, 40, 27)]
    drawn = random.Random(17)
    for ranks in (1, 2, 3, 1024):
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
            if expected is None:
                expect(got is None, got=got, think="what a rank holds in stage 3")
                continue
            expect(
                got == expected,
                got=f"{got} was returned",
                think=_think_of_zero_stage(case, got, expected),
            )


def _think_of_zero_stage(case: tuple, got, expected: int) -> str:
    numbers, ranks, activations, budget = case
    if got not in (None, *range(4)):
        return "what is asked for: 0, 1, 2, 3 or None"
    stage = expected if got is None else min(int(got), expected)
    held = state_bytes(numbers, ranks, STRATEGIES[stage])
    parts = " + ".join(f"{size:,}" for size in [*held, activations])
    return (
        f"stage {stage}: parameters, gradients, optimiser and activations, {parts}, "
        f"are {held.total + activations:,} bytes, and at most {budget:,} fit"
    )


# 17a-update ---------------------------------------------------------------------------

UPDATES = [ZeroUpdateCase(1, 1, 1.0), ZeroUpdateCase(3, 3, 0.1)]


@exercise(
    "17a-update",
    in_ranks=True,
    when_hung="whether every rank calls both rings, in one order, whatever it holds",
)
def check_17a_update(sharded_update):
    for ranks in RANKS:
        args = sharded_update, UPDATES
        think = "which lengths the whole and a shard have"
        with trying(f"sharded_update {in_ranks(ranks)}", think=think):
            found = run_trial(try_zero_updates, *args, ranks=ranks)
        for case, of_ranks in zip(UPDATES, zip(*found, strict=True), strict=True):
            for step, notes in enumerate(zip(*of_ranks, strict=True)):
                _expect_zero_update(case, step, notes)


def _expect_zero_update(
    case: ZeroUpdateCase, step: int, of_ranks: Sequence[ZeroUpdateNotes]
) -> None:
    ranks = len(of_ranks)
    with trying(
        f"step {step + 1} with {case.shard * ranks} parameters {in_ranks(ranks)}"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            think = "what is added to 0.9 of the old momentum: the mean of "
            think += "all ranks' gradients"
            if not notes.momentum.any():
                think = "whether the momentum that was given is changed in place"
            where = f"on rank {rank}, momentum"
            wanted = notes.expected_momentum
            expect_tensor(expect, where, notes.momentum, wanted, think, 1e-4)
        for rank, notes in enumerate(of_ranks):
            _expect_zero_update_messages(expect, rank, ranks, notes)
            pair = notes.parameters, notes.expected
            own = (whole.chunk(ranks)[rank] for whole in pair)
            think = "what is subtracted from it, in the memory of `parameters`: lr "
            think += "times the new momentum"
            where = f"on rank {rank}, its own shard of the parameters"
            expect_tensor(expect, where, *own, think, 1e-4)
            think = "the other ranks' shards: are they gathered after the update?"
            expect_tensor(expect, f"on rank {rank}, parameters", *pair, think, 1e-4)
            expect(
                torch.equal(notes.parameters, of_ranks[0].parameters),
                got=f"other parameters on rank {rank} than on rank 0",
                think="what makes the ranks' parameters equal to the last bit",
            )


def _expect_zero_update_messages(
    expect, rank: int, ranks: int, notes: ZeroUpdateNotes
) -> None:
    expect(
        not notes.collectives,
        got=f"rank {rank} called {', '.join(notes.collectives)}",
        think="which two functions are all that may send",
    )
    wanted = 2 * (ranks - 1) * notes.momentum.nbytes
    expect(
        notes.bytes_sent == wanted,
        got=f"rank {rank} sent {notes.bytes_sent} bytes, not {wanted}",
        think="one reduce-scatter and one all-gather: what has to travel in each",
    )


# 17a-clip -----------------------------------------------------------------------------

CLIPS = [
    ShardClipCase((2, 3), 1.0, 0.5),
    ShardClipCase((3, 1), 10.0, 1.0),
    ShardClipCase((5, 2), 10.0, 100.0),  # short enough, and its square is not
    ShardClipCase((6, 6), 1.0, 3.0),  # each rank's part alone may be short enough
]


@exercise(
    "17a-clip",
    in_ranks=True,
    when_hung="whether every rank calls the all-reduce, also one whose part is short",
)
def check_17a_clip(clip_shards):
    for ranks in RANKS:
        think = "what a rank has of the gradient: a list of shards"
        with trying(f"clip_shards {in_ranks(ranks)}", think=think):
            found = run_trial(try_shard_clips, clip_shards, CLIPS, ranks=ranks)
        for case, of_ranks in zip(CLIPS, zip(*found, strict=True), strict=True):
            _expect_clip_of_shards(case, of_ranks)


def _expect_clip_of_shards(
    case: ShardClipCase, of_ranks: Sequence[ShardClipNotes]
) -> None:
    ranks, length = len(of_ranks), of_ranks[0].length
    with trying(
        f"a gradient of length {length:.4g} {in_ranks(ranks)}, longest {case.longest}"
    ) as expect:
        for rank, notes in enumerate(of_ranks):
            _expect_clip_sends_one_number(expect, rank, ranks, notes)
        for rank, notes in enumerate(of_ranks):
            returned = expect.number(notes.returned, "the length", f"on rank {rank}")
            think = "which numbers of the shards may be added up over all ranks, and "
            think += "what makes of their sum the length of the whole"
            if abs(returned - case.longest) <= 1e-4 * length:
                think = "which length is asked for: the one before clipping"
            expect(
                abs(returned - length) <= 1e-4 * length,
                got=f"on rank {rank}, length {returned:.6g} instead of {length:.6g}",
                think=think,
            )
            for got, expected in zip(notes.shards, notes.expected, strict=True):
                think = "by what shards are multiplied: is it the same on all ranks?"
                if length <= case.longest:
                    think = "when shards are multiplied: is this gradient too long?"
                elif torch.allclose(got * case.longest, expected * length):
                    think = "whether the shards that were given are changed in place"
                where = f"on rank {rank}, a shard"
                expect_tensor(expect, where, got, expected, think, 1e-4)


def _expect_clip_sends_one_number(
    expect, rank: int, ranks: int, notes: ShardClipNotes
) -> None:
    expect(
        notes.calls == ["all_reduce"] or (ranks == 1 and not notes.calls),
        got=f"rank {rank} sent {', '.join(notes.calls) or 'nothing'}",
        think="one all-reduce on every rank: what has to travel",
    )
    expect(
        notes.travelled <= 1,
        got=f"an all-reduce of {notes.travelled} numbers",
        think="one number that each rank can compute from its own shards",
    )
