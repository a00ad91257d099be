"""The checks of lesson 20b: pairs, the place in the text, the fast training."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from sidebyside import RanksHung, machine
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import in_ranks, run_trial

from .fast_training_runs import FastCase, FastNotes, fast_seconds, try_fast

# 20b-pairs ----------------------------------------------------------------------------


def _pair_cases() -> list[tuple[str, str, str]]:
    """(text, held_out, alphabet): by hand, repeated, drawn, and long."""
    cases = [
        ("aaa", "aba", "ab"),
        ("abab", "ba", "ab"),
        ("xxxx", "xxyx", "xyz"),
        ("hello, hello", "hollow", "ehlow ,x"),
    ]
    drawn = random.Random(20)
    for length, letters in (
        (50, "ab"),
        (400, "abcdefgh"),
        (2000, "abc .\n"),
        (60_000, "abcdefghijklmnopqrstuvwxyz .\n"),  # too long for a pass for each pair
    ):
        text = "".join(drawn.choices(letters, range(1, len(letters) + 1), k=length))
        held_out = "".join(drawn.choices(letters, k=length // 3))
        cases.append((text, held_out, letters + "ÄZ"))
    return cases


def _pair_bits(text: str, held_out: str, alphabet: str) -> list[float]:
    pairs, firsts = Counter(pairwise(text)), Counter(text[:-1])
    return [
        -math.log2((pairs[a, b] + 1) / (firsts[a] + len(alphabet)))
        for a, b in pairwise(held_out)
    ]


@exercise(
    "20b-pairs",
    when_hung="how often you go through the whole text: once for each pair of held_out "
    "takes hours for a book",
)
def check_20b_pairs(pair_bits):
    for case in _pair_cases():
        shown = ", ".join(_short_text_of_pairs(text) for text in case)
        think = "what the formula says where nothing was counted"
        with trying(f"pair_bits({shown})", think=think) as expect:
            got = pair_bits(*case)
            number = expect.number(got)
            bits = _pair_bits(*case)
            expected = fmean(bits)
            expect(
                abs(number - expected) <= 1e-6 * max(1, expected),
                got=f"{number:.9g} bits instead of {expected:.9g}",
                think=_think_of_pairs(case, number, bits),
            )


def _short_text_of_pairs(text: str) -> str:
    return repr(text if len(text) <= 14 else text[:11] + "...")


def _think_of_pairs(case: tuple, got: float, bits: list[float]) -> str:
    expected, mean_chance = fmean(bits), fmean(2**-n for n in bits)
    told = {
        expected * math.log(2): "the unit: a bit is a logarithm to the base 2",
        2**expected: "what is asked for: bits, not the number of choices",
        sum(bits) / (len(bits) + 1): f"by how many pairs you divide: {len(bits)}",
        -math.log2(mean_chance): "the mean of the bits, not the bits of the mean",
    }
    for value, advice in told.items():
        if math.isclose(got, value, rel_tol=1e-6):
            return advice
    text, held_out, alphabet = case
    a, b = held_out[:2]
    n_ab, n_a, v = Counter(pairwise(text))[a, b], text[:-1].count(a), len(alphabet)
    return (
        f"P of each of the {len(held_out) - 1} pairs of held_out, repeated ones too. "
        f"The first has n({a}{b}) = {n_ab}, n({a}) = {n_a}, V = {v}, "
        f"P = {(n_ab + 1) / (n_a + v):.3g}. Overlapping pairs of text count, and its "
        "last character begins none"
    )


# 20b-place ----------------------------------------------------------------------------


# (windows, batch, ranks): even, odd, one rank, more ranks than windows
PLACES = [(5, 2, 2), (8, 4, 2), (7, 3, 1), (7, 3, 2), (4, 9, 3)]


def _order_of_epoch(epoch: int, windows: int) -> list[int]:
    return random.Random(1000 + epoch).sample(range(windows), windows)


@exercise("20b-place")
def check_20b_place(windows_of_step):
    for windows, batch, ranks in PLACES:
        steps = -(-windows // batch)
        for step in [*range(3 * steps), 7 * steps, 7 * steps + steps - 1]:
            for rank in range(ranks):
                _try_text_place(windows_of_step, step, rank, ranks, batch, windows)


def _try_text_place(answer, step: int, rank: int, ranks: int, batch: int, windows: int):
    asked, steps = [], -(-windows // batch)

    def order(epoch) -> list[int]:
        asked.append(int(epoch))
        return _order_of_epoch(int(epoch), windows)

    with trying(
        f"windows_of_step({step}, {rank}, {ranks}, {batch}, {windows}, order)"
    ) as expect:
        got = answer(step, rank, ranks, batch, windows, order)
        listed = [as_number(n) for n in got] if hasattr(got, "__iter__") else [None]
        expect(None not in listed, got=got, think="what is asked for: a list")
        epoch, place = divmod(step, steps)
        whole = _order_of_epoch(epoch, windows)[place * batch : (place + 1) * batch]
        expect(
            asked in ([], [epoch]),  # without a window there is nothing to ask
            got=f"order was asked for epochs {asked}, not once for {epoch}",
            think=f"{windows} windows in batches of {batch}, an epoch of {steps} "
            f"{'step' if steps == 1 else 'steps'}: in which epoch is step {step}? "
            "One call is enough",
        )
        expect(
            listed == whole[rank::ranks],
            got=f"{got} instead of {whole[rank::ranks]}: the batch is {whole}, of "
            f"{_order_of_epoch(epoch, windows)}",
            think="the last batch of an epoch: it is shorter, and the next epoch is "
            "apart"
            if len(whole) < batch and not set(listed) <= set(whole)
            else "which slice of the epoch's order the batch is, and which places of "
            "it are dealt to this rank: one in `ranks`",
        )


# 20b-fast -----------------------------------------------------------------------------

CASES = [
    FastCase(rows=6, steps=1, seed=1),
    FastCase(rows=8, steps=4, seed=2, double=True),
    FastCase(rows=7, steps=3, seed=3, double=True),
]
EVEN_SHARE, OPERATIONS, MESSAGES = 1.25, 2, 10


@exercise(
    "20b-fast",
    in_ranks=True,
    when_hung="whether every rank sends as often as the others",
)
def check_20b_fast(fast_training):
    for ranks in (2, 1, 3):
        with trying(
            f"fast_training in {ranks} {'ranks' if ranks > 1 else 'rank'}",
            think="what every rank is given, and what it returns",
        ):
            args = fast_training, CASES
            found = run_trial(try_fast, *args, ranks=ranks)
        for case, of_ranks in zip(CASES, zip(*found, strict=True), strict=True):
            _expect_fast_training_case(ranks, case, of_ranks)
    return _measured_fast_training(fast_training)


def _expect_fast_training_case(
    ranks: int, case: FastCase, of_ranks: Sequence[FastNotes]
):
    steps = f"{case.steps} {'steps' if case.steps > 1 else 'step'}"
    with trying(f"{steps} of {case.rows} rows {in_ranks(ranks)}") as expect:
        for notes in of_ranks:
            expect(
                notes.losses is not None and len(notes.losses) == case.steps,
                got=notes.returned,
                think="what is asked for on every rank: a list with one number for "
                "each step",
            )
        for rank, notes in enumerate(of_ranks):
            _expect_fast_training_same(expect, rank, notes, case)
        for rank, notes in enumerate(of_ranks):
            expect(
                bool((notes.parameters == of_ranks[0].parameters).all()),
                got=f"other parameters on rank {rank} than on rank 0",
                think="how ranks stay equal to the last bit",
            )
        for rank, notes in enumerate(of_ranks):
            _expect_fast_training_products(expect, rank, ranks, notes, case)


def _expect_fast_training_same(
    expect, rank: int, notes: FastNotes, case: FastCase
) -> None:
    close = 1e-6 if case.double else 1e-4  # 32 bits are enough for a loss
    pairs = list(zip(notes.losses, notes.expected_losses, strict=True))
    for step, (got, expected) in enumerate(pairs, start=1):
        expect(
            abs(got - expected) <= close,
            got=f"on rank {rank}, loss {got:.9g} instead of {expected:.9g} at step "
            f"{step}",
            think=_think_of_fast_training_losses(step),
        )
    gap = (notes.parameters - notes.expected).abs().max().item()
    expect(
        gap <= close,
        got=f"on rank {rank}, parameters that are off by {gap:.2g} in the end",
        think="the gradient of the mean over all rows of the batch, also when ranks "
        "have unequal shares",
    )


def _think_of_fast_training_losses(step: int) -> str:
    if step == 1:
        return (
            "the loss: the mean over the rows of all ranks, before the update, the "
            "same on every rank"
        )
    if step == 2:
        return (
            "the update before: the gradient of the mean over all rows, also when "
            "ranks have unequal shares"
        )
    return "the update before: what are the gradients before each backward?"


def _expect_fast_training_products(
    expect, rank: int, ranks: int, notes: FastNotes, case: FastCase
) -> None:
    """The way is right, but it takes longer than it needs to: counts, not seconds."""
    largest = -(-case.rows // ranks) / case.rows  # an even share, in whole rows
    share = notes.arithmetic / notes.whole_arithmetic
    expect.quick(
        share <= EVEN_SHARE * largest,
        got=f"rank {rank} does {share:.2f} of the batch's arithmetic",
        think=f"how {ranks} ranks could share the work, so that none does much more "
        f"than {largest:.2f} of it",
    )
    expect.quick(
        notes.products <= OPERATIONS * notes.whole_products,
        got=f"rank {rank} multiplies matrices {notes.products / case.steps:.0f} times "
        "in a step; "
        f"the whole batch at once needs {notes.whole_products / case.steps:.0f}",
        think="few large operations instead of many small ones",
    )
    expect.quick(
        notes.messages <= MESSAGES * case.steps,
        got=f"rank {rank} sends {notes.messages / case.steps:.0f} times in a step",
        think="what each message costs before its first byte, and what may travel "
        "together",
    )


def _measured_fast_training(fast_training) -> str:
    """In turn with one process that takes whole batches: a figure, and no verdict."""
    ranks, args = 2, (fast_seconds, fast_training)
    try:
        alone, together = run_trial(*args, ranks=ranks)[0]
    except RanksHung:  # what is right is right on a busy machine, too
        return "nothing: the machine is too busy; try again when it is not"
    speedup, capacity = alone / together, machine().capacity(ranks, rounds=3)
    return (
        f"one process {1e3 * alone:.0f} ms for a step, {ranks} ranks with yours "
        f"{1e3 * together:.0f} ms: {speedup:.2f} ×, capacity {capacity:.2f} ×"
    )
