"""The checks of lesson 10b: the ring, judged by the meter; the fit; the choice."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from sidebyside import consecutive_steps
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import expect_single_messages, in_ranks, run_trial

from .ring_programs import AllReduceRingNotes, try_all_reduce_ring

# 10b-ring -----------------------------------------------------------------------------

SHAPES = [(120,), (4, 6), (121,), (7,)]
RANKS = 3, 2, 1, 5


@exercise(
    "10b-ring",
    in_ranks=True,
    when_hung="who receives while everybody sends",
)
def check_10b_ring(ring):
    for ranks in RANKS:
        think = "the chunks: are there as many as ranks, however short the tensor is? "
        think += "And the room for one: has it the length and dtype of what arrives?"
        with trying(f"ring(tensor) {in_ranks(ranks)}", think=think):
            notes = run_trial(try_all_reduce_ring, ring, SHAPES, ranks=ranks)
        shapes = (ranks,), *SHAPES
        for shape, of_ranks in zip(shapes, zip(*notes, strict=True), strict=True):
            _expect_all_reduce_ring(shape, of_ranks)


def _expect_all_reduce_ring(
    shape: tuple, of_ranks: Sequence[AllReduceRingNotes]
) -> None:
    ranks = len(of_ranks)
    tried = f"ring(tensor of shape {shape}) {in_ranks(ranks)}"
    if shape == (ranks,):
        tried += ", each with its power of ten, as in the example"
    with trying(tried) as expect:
        total = torch.stack([notes.before for notes in of_ranks]).sum(0)
        for rank, notes in enumerate(of_ranks):
            _expect_all_reduce_sum(expect, rank, notes, total, ranks)
        expect(
            all(torch.equal(notes.after, of_ranks[0].after) for notes in of_ranks),
            got="sums that differ between ranks in their last bits",
            think="how often each chunk is added up: once, and then it is copied",
        )
        _expect_all_reduce_messages(expect, of_ranks)
        expect(
            consecutive_steps([notes.meter for notes in of_ranks]) <= 2 * (ranks - 1),
            got="the sum, in more than 2 (N - 1) steps",
            think="what a rank could do while it sends",
        )


def _expect_all_reduce_sum(
    expect, rank: int, notes: AllReduceRingNotes, total, ranks: int
) -> None:
    if torch.allclose(notes.after, total, rtol=1e-10, atol=1e-10):
        return
    think = "which chunk has been added to, and which is finished. Follow one chunk "
    think += "round the ring on paper"
    if torch.equal(notes.after, notes.before):
        think = "whether `tensor` itself changes, or a copy or a new name of it"
    elif torch.allclose(notes.after * ranks, total):
        think = "what is asked for: the sum, or the mean"
    elif torch.allclose(notes.after, total, rtol=1e-5, atol=1e-5):
        think = f"the dtype: {total.dtype}. Was the sum rounded to another on the way"
    elif len(total) % ranks:
        think = f"the chunks of {total.numel()} numbers: is each number in one of them?"
    right = (notes.after - total).abs().flatten() < 1e-10
    share = f"{int(right.sum()) or 'none'} of {right.numel()} numbers"
    got = f"on rank {rank}, the sum in {share}"
    if right.numel() == ranks:
        got += f": {notes.after.tolist()}"
    expect(False, got=got, think=think)


def _expect_all_reduce_messages(expect, of_ranks: Sequence[AllReduceRingNotes]) -> None:
    ranks, numbers = len(of_ranks), of_ranks[0].before.numel()
    size = of_ranks[0].before.element_size()
    for rank, notes in enumerate(of_ranks):
        meter, right = notes.meter, (rank + 1) % ranks
        expect_single_messages(expect, rank, meter)
        others = {to for to, sent in meter.sent_to.items() if sent} - {right}
        expect(
            not others,
            got=f"rank {rank} sent to {', '.join(map(str, sorted(others)))}",
            think=f"who is the right neighbour of rank {rank}: only rank {right}",
        )
        sent, longest = meter.bytes_sent // size, -(-numbers // ranks)
        most = 2 * (ranks - 1) * longest
        least = most if numbers % ranks == 0 else 0
        expect(
            least <= sent <= most,
            got=f"the sum, but rank {rank} sent {sent} numbers instead of {most}"
            + (" at most" if least < most else ""),
            think="what travels in each step: one chunk of the tensor, and never one "
            "that the neighbour does not need",
        )


# 10b-fit ------------------------------------------------------------------------------

LINKS = [(30e-6, 1e-9), (5e-3, 4e-8), (1e-6, 1e-11), (0.2, 1e-10), (0.0, 2e-9)]
FIT_SIZES = [8, 64, 1000, 4096, 30_000, 2**18, 5_000_000, 2**26]


@exercise("10b-fit")
def check_10b_fit(fit):
    _expect_fit_of_cost(fit, [1000, 101_000], [30e-6, 130e-6])
    for alpha, beta in LINKS:
        _expect_fit_of_cost(fit, FIT_SIZES, [alpha + beta * size for size in FIT_SIZES])
    random = np.random.default_rng(10)
    for (alpha, beta), count in itertools.product(LINKS, (3, 9, 40)):
        sizes = [int(size) for size in 2 ** random.uniform(2, 26, count)]
        noise = random.lognormal(0, 0.2, count)
        pairs = zip(sizes, noise, strict=True)
        seconds = [float((alpha + beta * size) * by) for size, by in pairs]
        _expect_fit_of_cost(fit, sizes, seconds, "with noise")


def _expect_fit_of_cost(
    fit: Callable, sizes: list, seconds: list, kind="on a straight line"
) -> None:
    call = f"fit(sizes, seconds) of {len(sizes)} messages {kind}"
    if len(sizes) == 2:
        call = f"fit({sizes}, {seconds})"
    with trying(call, sizes, seconds) as expect:
        got = fit(sizes, seconds)
        pair = isinstance(got, tuple | list | np.ndarray | torch.Tensor)
        pair = pair and len(got) == 2 and None not in map(as_number, got)
        expect(pair, got=got, think="what is to be returned: two numbers")
        line = tuple(map(float, got))
        best = _weighted_line_of_cost(sizes, seconds, 1 / np.array(seconds))
        loss, least = (
            _relative_loss_of_cost(ab, sizes, seconds) for ab in (line, best)
        )
        expect(
            loss <= 1.001 * least + 1e-8 * len(sizes),  # 0.01 % off for each message
            got=f"alpha = {line[0]:.4g}, beta = {line[1]:.4g}: squared relative errors "
            f"add up to {loss:.4g}; with alpha = {best[0]:.4g}, beta = {best[1]:.4g} "
            f"they are {least:.4g}",
            think=_think_of_fit_of_cost(line, best, sizes, seconds),
        )


def _think_of_fit_of_cost(line: tuple, best: tuple, sizes: list, seconds: list) -> str:
    """The mistake that leads to just this line, if it is a known one."""
    time = np.array(seconds)
    if np.allclose(line[::-1], best, rtol=1e-3, atol=0):
        return "the order: first alpha, then beta"
    if np.allclose(
        line, _weighted_line_of_cost(sizes, seconds, np.ones_like(time)), 1e-3, 0
    ):
        return (
            "whose errors count: a microsecond is much for a short message and nothing "
            "for a long one. Did you take errors in seconds"
        )
    for power in (-0.5, -2):
        if np.allclose(
            line, _weighted_line_of_cost(sizes, seconds, time**power), 1e-3, 0
        ):
            return "what your weights multiply: the errors, or their squares"
    return (
        "which errors are to be small: those of all messages, each divided by the "
        "seconds of that message"
    )


def _weighted_line_of_cost(sizes: list, seconds: list, weights) -> tuple[float, float]:
    """alpha and beta that minimise the sum of (weight * error) ** 2."""
    size, time = np.array(sizes, float), np.array(seconds, float)
    rows = np.column_stack([np.ones_like(size), size]) * np.asarray(weights)[:, None]
    return tuple(np.linalg.lstsq(rows, time * weights, rcond=None)[0])


def _relative_loss_of_cost(line, sizes: list, seconds: list) -> float:
    alpha, beta = map(float, line)
    pairs = zip(sizes, seconds, strict=True)
    return sum(((alpha + beta * size - time) / time) ** 2 for size, time in pairs)


# 10b-choose ---------------------------------------------------------------------------

FIVE = [(1e6, 2), (30_000, 4), (100_000, 4), (100_000, 64), (1e6, 64)]
MANY_RANKS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 100, 128, 1000, 1024, 1025]
MANY_LINKS = [(50e-6, 1e-9), (0.02, 4e-8), (2e-6, 5e-12), (0, 1e-9), (1e-5, 0), (3, 1)]
NAMES = ("root", "tree", "ring")


@exercise("10b-choose")
def check_10b_choose(fastest):
    for size, ranks in FIVE:
        _expect_fastest_all_reduce(fastest, size, ranks, 50e-6, 1e-9)
    sizes = [10**6, 10**7, 10**9, 123_456, 10_000, 1000, 1, 0]
    for ranks, (alpha, beta) in itertools.product(MANY_RANKS, MANY_LINKS):
        for size in sizes:
            _expect_fastest_all_reduce(fastest, size, ranks, alpha, beta)


def _seconds_of_all_reduces(size: float, ranks: int, alpha, beta) -> dict[str, float]:
    levels = (ranks - 1).bit_length()
    return {
        "root": 2 * (ranks - 1) * (alpha + beta * size),
        "tree": 2 * levels * (alpha + beta * size),
        "ring": 2 * (ranks - 1) * (alpha + beta * size / ranks),
    }


def _expect_fastest_all_reduce(
    fastest: Callable, size, ranks: int, alpha, beta
) -> None:
    with trying(f"fastest({size:g}, {ranks}, {alpha:g}, {beta:g})") as expect:
        got = fastest(size, ranks, alpha, beta)
        name = isinstance(got, str) and got in NAMES
        expect(name, got=got, think='which answers there are: "root", "tree", "ring"')
        times = _seconds_of_all_reduces(size, ranks, alpha, beta)
        least = min(times.values())
        best = [way for way in NAMES if math.isclose(times[way], least, rel_tol=1e-9)]
        described = {way: f"{seconds:.4g} s" for way, seconds in times.items()}
        think = "how many messages follow one another, and how long each is: they take "
        think += ", ".join(f"{way} {seconds}" for way, seconds in described.items())
        if ranks & (ranks - 1) and got == "tree":
            full = 1 << ranks.bit_length()
            rounded = f"{ranks} ranks need as many levels as {full}"
            think = f"how the logarithm is rounded: {rounded}. Or {think}"
        expect(got in best, got=got, think=think)
