"""The checks of lesson 18a: two levels by the meter, the break-even rate, top-k."""

import itertools
import math
import os
from collections.abc import Sequence

import torch

from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import run_trial

from .machine_programs import TopKNotes, TwoLevelsNotes, try_top_k, try_two_levels

# 18a-two-levels -----------------------------------------------------------------------

CLUSTERS = [(2, 2), (3, 2), (2, 3), (1, 3), (3, 1)]
LEVELS_CASES = [
    ((72,), torch.float64),
    ((4, 6), torch.float32),
    ((121,), torch.float64),
    ((1,), torch.float32),
]


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
            notes = run_trial(
                try_two_levels,
                two_levels,
                per_machine,
                LEVELS_CASES,
                ranks=machines * per_machine,
            )
        for case, of_ranks in zip(LEVELS_CASES, zip(*notes, strict=True), strict=True):
            kind = str(case[1]).replace("torch.", "")
            call = f"two_levels(tensor of shape {case[0]}, {kind}; {per_machine})"
            with trying(f"{call} on {where}") as expect:
                _expect_two_levels_sum(expect, of_ranks)
                _expect_two_levels_messages(expect, of_ranks, per_machine)


def _expect_two_levels_sum(expect, of_ranks: Sequence[TwoLevelsNotes]) -> None:
    total = torch.stack([notes.before for notes in of_ranks]).sum(0)
    for rank, notes in enumerate(of_ranks):
        expect(
            notes.returned == "None",
            got=f"rank {rank} returned a {notes.returned}",
            think="where the sum is to be: in `tensor` itself. Nothing is returned",
        )
        if torch.equal(notes.after, total):
            continue
        think = "which summands this rank's sum contains, and which it lacks or has "
        think += "twice. Follow one number through the three parts"
        if torch.equal(notes.after, notes.before) and rank:
            think = "how the total gets back to the ranks that are no leaders"
        elif torch.allclose(notes.after.double() * len(of_ranks), total.double()):
            think = "what is asked for: the sum, or the mean"
        expect(False, got=f"on rank {rank}, not the sum over all ranks", think=think)


def _expect_two_levels_messages(expect, of_ranks, per_machine: int) -> None:
    machines = len(of_ranks) // per_machine
    numbers = of_ranks[0].before.numel()
    size = of_ranks[0].before.element_size()
    for rank, notes in enumerate(of_ranks):
        expect(
            not notes.meter.collectives,
            got=f"rank {rank} called {', '.join(notes.meter.collectives)}",
            think="what may be used: messages from one rank to one other",
        )
        expect(
            not notes.meter.not_awaited,
            got=f"{notes.meter.not_awaited} messages of rank {rank} not waited for",
            think="what isend and irecv give back, and when a tensor may be used again",
        )
    ranks = len(of_ranks)
    most = 2 * (numbers - per_machine * (numbers // ranks))
    for machine in range(machines):
        mine = range(machine * per_machine, (machine + 1) * per_machine)
        sent = [(to, s) for r in mine for to, s in of_ranks[r].meter.sent_to.items()]
        across = sum(s for to, s in sent if to not in mine) // size
        inside = sum(s for to, s in sent if to in mine) // size
        expect(
            across <= most,
            got=f"the sum, but {across} of its {numbers} numbers left machine "
            f"{machine} instead of at most {most}",
            think="who talks to other machines, and about what: the machines' sums go "
            "round a ring that has one member for each machine",
        )
        allowed = 2 * (per_machine - 1) * numbers
        expect(
            inside <= allowed,
            got=f"the sum, but {inside} numbers travelled inside machine {machine}, "
            f"more than {allowed}",
            think="how often a tensor has to travel inside a machine: to the leader, "
            "and back",
        )


# 18a-break-even -----------------------------------------------------------------------

BY_HAND = (16_000_000, 0.5, 0.04, 2)
SIZES = [1000, 1_204_264, 3e9]
SHARES = [0, 0.01, 0.5, 1, 1.5]
SECONDS = [0, 0.001, 3]
MACHINES = [1, 2, 3, 8, 1000]


@exercise("18a-break-even")
def check_18a_break_even(break_even):
    _expect_break_even(break_even, *BY_HAND)
    for case in itertools.product(SIZES, SHARES, SECONDS, MACHINES):
        _expect_break_even(break_even, *case)


def _expect_break_even(break_even, size, share, seconds, machines) -> None:
    with trying(f"break_even({size}, {share}, {seconds}, {machines})") as expect:
        got = break_even(size, share, seconds, machines)
        number = as_number(got)
        expect(number is not None, got=got, think="what is to be returned: one number")
        right = _break_even_rate(size, share, seconds, machines)
        same = number == right or math.isclose(number, right, rel_tol=1e-6)
        think = _think_of_break_even(number, size, share, seconds, machines)
        expect(same, got=got, think=think)


def _break_even_rate(size, share, seconds, machines) -> float:
    saved = 2 * (machines - 1) / machines * size * (1 - share)
    if saved <= 0:
        return 0.0
    return saved / seconds if seconds else math.inf


def _think_of_break_even(number: float, size, share, seconds, machines) -> str:
    """The mistake that leads to just this number, if it is a known one."""
    if machines == 1:
        return "what one machine sends, and what there is to save"
    if share >= 1:
        return "whether this compression saves anything. Nothing saved never pays"
    if not seconds:
        return "what it costs here: nothing. At which rates does it pay then"
    ring = 2 * (machines - 1) / machines
    known = {
        size * (1 - share) / seconds: "how many bytes leave a machine: the size of the "
        "gradients, or what a ring of so many machines sends",
        ring
        * size
        * share
        / seconds: "what is compared: the bytes that are still sent, "
        "or the bytes that are saved",
        8 * ring * size * (1 - share) / seconds: "the unit: bytes per second, or bits",
    }
    for value, think in known.items():
        if math.isclose(number, value, rel_tol=1e-6):
            return think
    return "which seconds are saved and which are spent, at the rate you look for"


# 18a-top-k ----------------------------------------------------------------------------

HAND = [
    ([[2.0, 0.0, 1.0]], [0.0, 3.0, 0.0]),
    ([[-4.0, 1.0, 0.0]], [0.0, 0.0, 0.0]),
]


@exercise(
    "18a-top-k",
    in_ranks=True,
    when_hung="whether all ranks call all_gather equally often",
)
def check_18a_top_k(top_k_mean):
    _try_top_k_in_ranks(top_k_mean, HAND, 1, torch.float64, "the case by hand")
    for ranks, numbers, k, kind in (
        (2, 40, 3, torch.float64),
        (3, 17, 5, torch.float32),
        (1, 9, 2, torch.float64),
        (5, 23, 23, torch.float64),
    ):
        dice = torch.Generator().manual_seed(ranks * 1000 + numbers)
        given = []
        for _ in range(ranks):  # several calls: what was not sent must not be lost
            rows = torch.randn(4, numbers, generator=dice, dtype=torch.float64)
            rows[:, : numbers // 2] *= 0.2  # small, but it adds up
            rows[2] = rows[1]
            before = torch.randn(numbers, generator=dice, dtype=torch.float64)
            given.append((rows.tolist(), before.tolist()))
        name = f"{numbers} numbers, k = {k}"
        _try_top_k_in_ranks(top_k_mean, given, k, kind, name)


def _top_k_of_rank(top_k_mean, given: list, k: int, kind) -> list[TopKNotes]:
    rows, memory = given[int(os.environ["RANK"])]
    gradients = [torch.tensor(row, dtype=kind) for row in rows]
    return try_top_k(top_k_mean, gradients, torch.tensor(memory, dtype=kind), k)


def _try_top_k_in_ranks(top_k_mean, given: list, k: int, kind, name: str) -> None:
    ranks = len(given)
    call = f"top_k_mean(gradient, memory, {k}) in {ranks} ranks, {name}"
    with trying(call, think="of which types and lengths places and values are"):
        work = top_k_mean, given, k, kind
        notes = run_trial(_top_k_of_rank, *work, ranks=ranks)
    for turn, of_ranks in enumerate(zip(*notes, strict=True)):
        with trying(f"{call}, call {turn + 1}") as expect:
            for rank, one in enumerate(of_ranks):
                _expect_top_k_memory(expect, rank, one, k)
            _expect_top_k_mean(expect, of_ranks, kind)
            for rank, one in enumerate(of_ranks):
                _expect_top_k_messages(expect, rank, one, k)


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
    smallest = one.candidates[sent].abs().min() if len(sent) else math.inf
    expect(
        one.memory.abs().max() <= smallest,
        got=f"rank {rank}: of {_short_top_k(one.candidates)}, "
        f"{_short_top_k(one.memory)} stays",
        think="which entries are the largest in absolute value, and of what: of memory "
        "and gradient together",
    )


def _expect_top_k_mean(expect, of_ranks: Sequence[TopKNotes], kind) -> None:
    mean = torch.stack([one.candidates - one.memory for one in of_ranks]).mean(0)
    close = 1e-5 if kind == torch.float32 else 1e-12
    for rank, one in enumerate(of_ranks):
        got = one.returned
        fits = isinstance(got, torch.Tensor) and got.shape == mean.shape
        expect(
            fits and got.dtype == kind,
            got=got,
            think="what is to be returned: a tensor like the gradient, of its type",
        )
        expect(
            one.memory_is_its_own,
            got="a tensor that shares its numbers with `memory` or `gradient`",
            think="what the caller does with the result: it is to be a new tensor",
        )
        think = "what adds up: each rank's values, at that rank's own places"
        if torch.allclose(got, mean * len(of_ranks), atol=close):
            think = "what is asked for: the sum, or the mean over all ranks"
        expect(
            torch.allclose(got, mean, rtol=close, atol=close),
            got=f"rank {rank}: {_short_top_k(got)} instead of {_short_top_k(mean)}",
            think=think,
        )
        expect(
            torch.equal(got, of_ranks[0].returned),
            got="means that differ between ranks in their last bits",
            think="the order in which each rank adds up: the same on all",
        )


def _expect_top_k_messages(expect, rank: int, one: TopKNotes, k: int) -> None:
    others = {name for name in one.collectives if name != "all_gather"}
    expect(
        not others and not one.messages,
        got=f"rank {rank} sent by {', '.join(sorted(others)) or 'single messages'}",
        think="what may be used: dist.all_gather, and nothing else",
    )
    given = sum(one.gathered)
    allowed = k * (8 + one.candidates.element_size())
    expect(
        given <= allowed and len(one.collectives) == len(one.gathered),
        got=f"rank {rank} gave {given} bytes to all_gather, more than {allowed}",
        think=f"what has to travel: {k} places of at most 8 bytes, and {k} values",
    )


def _short_top_k(numbers: torch.Tensor) -> str:
    shown = [round(number, 3) for number in numbers[:6].tolist()]
    return f"{shown}" if len(numbers) <= 6 else f"{shown}"[:-1] + ", ...]"
