"""The checks of lesson 18a: two levels by the meter, the break-even rate, top-k."""

import itertools
import math
from collections.abc import Sequence

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.findings import largest_difference
from sidebyside.exercises.rank_trials import expect_single_messages, in_ranks, run_trial

from .machine_programs import TopKNotes, TwoLevelsNotes, try_top_k, try_two_levels

# 18a-two-levels -----------------------------------------------------------------------

CLUSTERS = [(2, 2), (3, 2), (2, 3), (1, 3), (3, 1)]
SHAPES = [(72,), (4, 6), (7,)]  # the last one does not fit any ring


@exercise(
    "18a-two-levels",
    in_ranks=True,
    when_hung="who waits for a message that nobody sends: do all ranks of a machine "
    "call what only its leader should, or the other way round",
)
def check_18a_two_levels(two_levels):
    for machines, per_machine in CLUSTERS:
        where = f"{machines} machines of {per_machine} ranks"
        think = "which ranks exist, which are leaders, and what each may call"
        with trying(f"two_levels(tensor, {per_machine}) on {where}", think=think):
            trial = try_two_levels, two_levels, per_machine, SHAPES
            notes = run_trial(*trial, ranks=machines * per_machine)
        for shape, of_ranks in zip(SHAPES, zip(*notes, strict=True), strict=True):
            of = " full of 10 ** rank" if shape is SHAPES[0] else ""
            call = f"two_levels(tensor of shape {shape}{of}, {per_machine})"
            with trying(f"{call} on {where}") as expect:
                _expect_two_levels_sum(expect, of_ranks)
                _expect_two_levels_messages(expect, of_ranks, per_machine)


def _expect_two_levels_sum(expect, of_ranks: Sequence[TwoLevelsNotes]) -> None:
    total = torch.stack([notes.before for notes in of_ranks]).sum(0)
    for rank, notes in enumerate(of_ranks):
        think = "which summands this rank's sum contains, and which it lacks or has "
        think += "twice. Follow one number, from `tensor` and back into `tensor` itself"
        if torch.equal(notes.after, notes.before) and rank:
            think = "how the total gets back to the ranks that are no leaders"
        off = largest_difference(notes.after, total).split("; ")[0]
        got = f"on rank {rank}, not the sum over all ranks: {off}"
        expect(torch.equal(notes.after, total), got=got, think=think)


def _expect_two_levels_messages(expect, of_ranks, per_machine: int) -> None:
    machines, numbers = len(of_ranks) // per_machine, of_ranks[0].before.numel()
    for rank, notes in enumerate(of_ranks):
        expect_single_messages(expect, rank, notes.meter)
    if numbers % len(of_ranks):
        return
    most = 2 * (machines - 1) * numbers // machines
    for machine in range(machines):
        mine = range(machine * per_machine, (machine + 1) * per_machine)
        sent = [pair for r in mine for pair in of_ranks[r].meter.sent_to.items()]
        across = sum(size for to, size in sent if to not in mine) // 8
        expect(
            across <= most,
            got=f"the sum, but {across} numbers left machine {machine}, not {most}",
            think="who talks to other machines, and about what: the machines' sums go "
            "round a ring that has one member for each machine",
        )


# 18a-break-even -----------------------------------------------------------------------

FIRST = [(1200, 0.25, 0.01, 4), (16_000_000, 0.5, 0.04, 2)]  # the second is by hand
SIZES = [1000, 1_204_264, 3e9]
SHARES = [0.01, 0.5, 1, 1.5]
SECONDS = [0.001, 3]
MACHINES = [2, 3, 8, 1000]


@exercise("18a-break-even")
def check_18a_break_even(break_even):
    cases = itertools.product(SIZES, SHARES, SECONDS, MACHINES)
    for size, share, seconds, machines in [*FIRST, *cases]:
        with trying(f"break_even({size}, {share}, {seconds}, {machines})") as expect:
            got = break_even(size, share, seconds, machines)
            number = expect.number(got)
            ring = 2 * (machines - 1) / machines
            saved = ring * size * (1 - share)
            right = max(0.0, saved / seconds)
            think = f"the {ring * size:.9g} bytes that leave a machine: of them "
            think += f"{saved:.9g} are saved. At which rate do these take `seconds`"
            if share >= 1:
                think = "whether this compression saves anything. If not, it never pays"
            got = f"{got} instead of {right:.9g}"
            expect(math.isclose(number, right, rel_tol=1e-6), got=got, think=think)


# 18a-top-k ----------------------------------------------------------------------------

HAND = [  # in the second call, both send the same place
    ([[2.0, 0.0, 1.0], [0.0, 9.0, 0.0]], [0.0, 3.0, 0.0]),
    ([[-4.0, 1.0, 0.0], [0.0, 5.0, 0.0]], [0.0, 0.0, 0.0]),
]


@exercise(
    "18a-top-k",
    in_ranks=True,
    when_hung="whether all ranks call all_gather equally often",
)
def check_18a_top_k(top_k_mean):
    _try_top_k_in_ranks(top_k_mean, HAND, 1, "the case by hand")
    for ranks, numbers, k in ((2, 40, 3), (3, 17, 5), (1, 9, 2), (5, 23, 23)):
        dice = torch.Generator().manual_seed(ranks * 1000 + numbers)
        given = []
        for _ in range(ranks):  # several calls: what was not sent must not be lost
            rows = torch.randn(4, numbers, generator=dice)
            rows[:, : numbers // 2] *= 0.2  # small, but it adds up
            before = torch.randn(numbers, generator=dice)
            given.append((rows.tolist(), before.tolist()))
        _try_top_k_in_ranks(top_k_mean, given, k, f"{numbers} numbers, k = {k}")


def _try_top_k_in_ranks(top_k_mean, given: list, k: int, name: str) -> None:
    ranks = len(given)
    call = f"top_k_mean(gradient, memory, {k}) {in_ranks(ranks)}, {name}"
    with trying(call, think="of which types and lengths places and values are"):
        notes = run_trial(try_top_k, top_k_mean, given, k, ranks=ranks)
    for turn, of_ranks in enumerate(zip(*notes, strict=True)):
        with trying(f"{call}, call {turn + 1}") as expect:
            for rank, one in enumerate(of_ranks):
                _expect_top_k_memory(expect, rank, one, k)
            _expect_top_k_mean(expect, of_ranks)
            for rank, one in enumerate(of_ranks):
                _expect_top_k_messages(expect, rank, one, k * (ranks - 1))


def _expect_top_k_memory(expect, rank: int, one: TopKNotes, k: int) -> None:
    expect(
        one.gradient_kept,
        got=f"rank {rank}: the gradient has changed",
        think="which of the two tensors changes: only `memory`",
    )
    sent = (one.memory != one.candidates).nonzero().flatten()
    stays = one.candidates.clone()
    stays[sent] = 0
    expect(
        torch.equal(one.memory, stays) and 0 < len(sent) <= k,
        got=f"rank {rank}: memory + gradient was {_short_top_k(one.candidates)}, and "
        f"`memory` is now {_short_top_k(one.memory)}",
        think="what `memory` holds afterwards: 0 at the k places that were sent, and "
        "memory + gradient at all others. Does `memory` itself change, or a new tensor "
        "of that name",
    )
    expect(
        one.memory.abs().max() <= one.candidates[sent].abs().min(),
        got=f"rank {rank}: of {_short_top_k(one.candidates)}, "
        f"{_short_top_k(one.memory)} stays",
        think="which entries are the largest in absolute value, and of what: of memory "
        "and gradient together",
    )


def _expect_top_k_mean(expect, of_ranks: Sequence[TopKNotes]) -> None:
    mean = torch.stack([one.candidates - one.memory for one in of_ranks]).mean(0)
    for rank, one in enumerate(of_ranks):
        got = one.returned
        fits = isinstance(got, torch.Tensor) and got.shape == mean.shape
        think = "what is to be returned: a tensor like the gradient, of its type"
        expect(fits and got.dtype == mean.dtype, got=got, think=think)
        think = "what adds up, and with which sign: each rank's values of memory + "
        think += "gradient, at that rank's own places"
        if torch.allclose(got, mean * len(of_ranks), atol=1e-5):
            think = "what is asked for: the sum, or the mean over all ranks"
        expect(
            torch.allclose(got, mean, rtol=1e-5, atol=1e-5),
            got=f"rank {rank}: {largest_difference(got, mean)}",
            think=think,
        )
        expect(
            torch.equal(got, of_ranks[0].returned),
            got="means that differ between ranks in their last bits",
            think="the order in which each rank adds up: the same on all",
        )


def _expect_top_k_messages(expect, rank: int, one: TopKNotes, pairs: int) -> None:
    others = set(one.meter.collectives) - {"all_gather"}
    expect(
        not others and not one.meter.messages_sent,
        got=f"rank {rank} sent by {', '.join(sorted(others)) or 'single messages'}",
        think="what may be used: dist.all_gather, and nothing else",
    )
    allowed = 12 * pairs  # a place has 8 bytes, a value 4
    expect(
        one.gathered <= allowed,
        got=f"rank {rank} sent {one.gathered} bytes to the others, more than {allowed}",
        think="what has to travel: k places of at most 8 bytes, and k values",
    )


def _short_top_k(numbers: torch.Tensor) -> str:
    shown = [round(number, 3) for number in numbers[:6].tolist()]
    return f"{shown}" if len(numbers) <= 6 else f"{shown}"[:-1] + ", ...]"
