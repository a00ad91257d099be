"""The checks of lesson 14a: messages that autograd drives, the cut, tied weights."""

import os
import random
from collections.abc import Sized
from fractions import Fraction
from itertools import combinations, pairwise

import torch

from sidebyside import run_ranks
from sidebyside.any_number import as_number
from sidebyside.exercises import exercise, trying

from .chains_and_tied_weights import (
    FAN,
    ChainCase,
    TiedCase,
    chain_in_one_piece,
    tied_gradients,
    try_fan_of_sends,
    try_send_forward,
    try_tied,
)

# Seconds; a right answer needs less than one. Tests of what hangs wait for less.
PATIENCE = float(os.environ.get("SIDEBYSIDE_PATIENCE", "20"))


# 14a-send -----------------------------------------------------------------------------

CHAINS = [
    ChainCase((4, 6), torch.float32),
    ChainCase((3, 2, 5), torch.float64),
    ChainCase((5, 3), torch.float64, turned=True),
    ChainCase((1,), torch.float32),
    ChainCase((), torch.float64),
    ChainCase((200, 300), torch.float32),
    ChainCase((7, 2), torch.float64, batches=3),
    ChainCase((7, 2), torch.float64, batches=3, oldest_first=True),
    ChainCase((8, 8), torch.bfloat16),
]


@exercise(
    "14a-send",
    in_ranks=True,
    when_hung="who sends and who receives: for each message that a rank sends, forward "
    "and back, the other one must receive exactly one",
)
def check_14a_send(send_forward):
    for ranks in 2, 3, 5:
        think = "what this line needs: the shape, the type and the layout of what "
        think += "travels, one number to return, and one gradient for each input"
        with trying(f"SendForward.apply between {ranks} ranks", think=think):
            notes = run_ranks(
                try_send_forward,
                send_forward,
                CHAINS,
                world_size=ranks,
                timeout=PATIENCE,
            )
        for case, of_ranks in zip(CHAINS, zip(*notes, strict=True), strict=True):
            _expect_chain(case, of_ranks)
    with trying("SendForward.apply to rank 1, then to rank 2") as expect:
        got = run_ranks(try_fan_of_sends, send_forward, world_size=3, timeout=PATIENCE)[
            0
        ]
        expect(
            got == sum(factor * gradient for factor, gradient in FAN.values()),
            got="another gradient, when the one from rank 2 is asked for first",
            think="from whom `backward` receives: from the `target` of its own call",
        )


def _expect_chain(case: ChainCase, of_ranks) -> None:
    ranks, kind = len(of_ranks), str(case.dtype).removeprefix("torch.")
    call = f"SendForward.apply of shape {case.shape}, {kind}, {ranks} ranks"
    if case.batches > 1:
        first = "oldest" if case.oldest_first else "newest"
        call += f", {case.batches} under way, the {first} goes back first"
    with trying(call) as expect:
        whole = chain_in_one_piece(case, ranks)
        close = {torch.float64: 1e-10, torch.float32: 1e-4}.get(case.dtype, 0.1)
        for rank, notes in enumerate(of_ranks):
            expect(
                notes.unchanged,
                got=f"other activations on rank {rank} than before",
                think="who else uses what is sent, until after the way back: the "
                "layers in front",
            )
            right = torch.allclose(notes.gradient, whole[rank], rtol=close, atol=close)
            expect(
                right,
                got=f"on rank {rank}, another gradient than in one piece",
                think="what `backward` returns: the gradient that has arrived, and "
                "nothing added, divided or mixed up with another batch",
            )
            _expect_chain_messages(expect, case, rank, ranks, notes.meter)


def _expect_chain_messages(expect, case, rank: int, ranks: int, meter) -> None:
    expect(
        not meter.collectives,
        got=f"the gradients, by {', '.join(meter.collectives)}",
        think="who needs the activations: one rank only, so point to point",
    )
    shapes = [case.shape_of(batch) for batch in range(case.batches)]
    size = sum(torch.zeros(shape, dtype=case.dtype).nbytes for shape in shapes)
    sent = {r: size for r in (rank - 1, rank + 1) if 0 <= r < ranks}
    expect(
        meter.sent_to == sent
        and meter.messages_sent == meter.messages_received == len(sent) * case.batches,
        got=f"rank {rank} sent {meter.sent_to} bytes (by rank), in "
        f"{meter.messages_sent} messages; {sent} was enough, in "
        f"{len(sent) * case.batches}",
        think="what has to travel: the activations once, their gradient once",
    )
    expect(
        not meter.not_awaited,
        got=f"{meter.not_awaited} messages that nobody waited for",
        think="what isend and irecv give back, and when it is done",
    )


# 14a-balanced-cut ---------------------------------------------------------------------


@exercise(
    "14a-balanced-cut",
    seconds=30,
    when_hung="how many ways there are to cut 60 layers for 10 devices. What do you "
    "know already when you add one more device",
)
def check_14a_balanced_cut(balanced_cut):
    four = [3, 1, 1, 3], [1, 9, 1, 1], [1, 1, 1, 1]
    cases = [(*four, 2, 3), (*four, 2, 2), (*four, 2, 1), (*four, 4, 1), (*four, 5, 9)]
    cases += [
        (*four, 1, 4),
        (*four, 1, 3),
        ([5], [7], [2], 1, 2),
        ([5], [7], [2], 2, 2),
    ]
    cases += [([1, 1, 1, 1, 8], [0] * 5, [1, 1, 1, 1, 1], 2, 3)]  # time says 4, 1
    cases += [([2, 2, 2, 9, 1, 1], [0] * 6, [3, 1, 1, 1, 1, 3], 3, 5)]
    cases += [([4, 4, 4], [1, 1, 50], [1, 1, 1], 3, 1)]  # the last send counts nothing
    cases += [([0, 0, 0], [0, 0, 0], [1, 2, 1], 2, 3)]
    cases += [([1, 1, 1, 1], [5, 0, 5, 0], [0, 0, 0, 0], 2, 0)]
    third = Fraction(1, 3)
    cases += [([third, 2 * third, third, 1], [third] * 4, [third] * 4, 2, 3 * third)]
    cases += [_drawn_layers_to_cut(random.Random(number)) for number in range(150)]
    for case in cases:
        _try_cut(balanced_cut, *case)
    _try_long_cut(balanced_cut)


def _drawn_layers_to_cut(dice: random.Random) -> tuple:
    layers, whole = dice.randint(1, 9), dice.random() < 0.5

    def draw(most: int) -> list:
        return [dice.randint(0, most) if whole else most * dice.random() for _ in times]

    times = range(layers)
    memory = [dice.randint(1, 9) for _ in times]
    devices = dice.randint(1, min(layers, 5))
    limit = dice.randint(max(memory), sum(memory) * 2 // (devices + 1) + max(memory))
    return draw(9), draw(6), memory, devices, limit


def _slowest_of_cut(times, sends, counts) -> float:
    edges = [sum(counts[:place]) for place in range(len(counts) + 1)]
    parts = list(pairwise(edges))
    last = len(times)
    return max(sum(times[a:b]) + (sends[b - 1] if b < last else 0) for a, b in parts)


def _held_by_devices_of_cut(memory, counts) -> list:
    edges = [sum(counts[:place]) for place in range(len(counts) + 1)]
    return [sum(memory[a:b]) for a, b in pairwise(edges)]


def _cut_fits_memory(memory, counts, limit) -> bool:
    return all(held <= limit for held in _held_by_devices_of_cut(memory, counts))


def _all_cuts_of_layers(layers: int, devices: int):
    for cuts in combinations(range(1, layers), devices - 1):
        yield [b - a for a, b in pairwise((0, *cuts, layers))]


def _best_cut_by_trying_all(times, sends, memory, devices, limit) -> float | None:
    return min(
        (
            _slowest_of_cut(times, sends, counts)
            for counts in _all_cuts_of_layers(len(times), devices)
            if _cut_fits_memory(memory, counts, limit)
        ),
        default=None,
    )


def _try_cut(balanced_cut, times, sends, memory, devices, limit) -> None:
    call = f"balanced_cut({times}, {sends}, {memory}, {devices}, {limit})"
    with trying(call.replace("Fraction", ""), times, sends, memory) as expect:
        best = _best_cut_by_trying_all(times, sends, memory, devices, limit)
        lists = [list(times), list(sends), list(memory)]
        got = balanced_cut(times, sends, memory, devices, limit)
        changed = [list(times), list(sends), list(memory)] != lists
        think = "who else uses the lists that your function was given"
        expect(not changed, got="lists that have changed", think=think)
        if best is None:
            think = "whether there is any way at all: each device needs at least one "
            think += "layer, and none may hold more than the limit. If not, None"
            expect(got is None, got=got, think=think)
            return
        think = "a device that needs exactly the limit: it fits"
        expect(got is not None, got="None, and there is a way", think=think)
        counts = _expect_counts_of_cut(expect, got, len(times), devices)
        expect(
            _cut_fits_memory(memory, counts, limit),
            got=f"{counts}, where a device holds more than {limit}",
            think="the memory of each device: is it looked at for each of them",
        )
        slowest = _slowest_of_cut(times, sends, counts)
        expect(
            slowest <= best + 1e-9 * max(1, abs(best)),
            got=f"{counts}: the slowest device takes {slowest}, and {best} is possible",
            think=_what_the_cut_forgot(counts, times, sends, memory, devices, limit),
        )


def _what_the_cut_forgot(counts, times, sends, memory, devices, limit) -> str:
    """If the answer is the best of one other problem, say which."""
    free, dear = [0] * len(times), [*times[:-1], times[-1] + sends[-1]]
    others = {
        "the messages: a device also takes the time to send its last output on": (
            times,
            free,
            lambda held: held <= limit,
        ),
        "the last device: it sends nothing": (dear, sends, lambda held: held <= limit),
        "a device that needs exactly the limit: it fits": (
            times,
            sends,
            lambda held: held < limit,
        ),
    }
    ways = list(_all_cuts_of_layers(len(times), devices))
    right = min(
        (way for way in ways if _cut_fits_memory(memory, way, limit)),
        key=lambda way: _slowest_of_cut(times, sends, way),
    )
    fitting = []
    for advice, (of_layers, of_messages, fits) in others.items():
        cost = {
            tuple(way): _slowest_of_cut(of_layers, of_messages, way)
            for way in ways
            if all(fits(held) for held in _held_by_devices_of_cut(memory, way))
        }
        best = min(cost.values(), default=None)
        if cost.get(tuple(counts)) == best != cost.get(tuple(right)):
            fitting.append(advice)
    if len(fitting) == 1:
        return fitting[0]
    return (
        "whether every way that fits was compared, the limit included, and for each "
        "device its layers and its message, but none of the last device"
    )


def _expect_counts_of_cut(expect, got, layers: int, devices: int) -> list[int]:
    """Whole numbers of any kind, in a sequence of any kind, as a list."""
    think = "the form of the answer: a list of numbers of layers, one for each device"
    many = isinstance(got, Sized) and not isinstance(got, str | dict | set)
    expect(many, got=got, think=think)
    numbers = [as_number(number) for number in got]
    whole = all(n is not None and n == n // 1 for n in numbers)
    expect(whole, got=got, think=think)
    counts = [int(number) for number in numbers]
    expect(len(counts) == devices, got=got, think=think)
    expect(min(counts) >= 1, got=got, think="what a device does that has no layer")
    expect(sum(counts) == layers, got=got, think=f"together {layers} layers, no more")
    return counts


def _try_long_cut(balanced_cut) -> None:
    dice = random.Random(60)
    times = [dice.randint(1, 20) for _ in range(60)]
    sends = [dice.randint(0, 10) for _ in times]
    memory = [dice.randint(1, 5) for _ in times]
    limit = sum(memory) // 10 + 6
    with trying("balanced_cut of 60 layers for 10 devices", times, memory) as expect:
        got = balanced_cut(times, sends, memory, 10, limit)
        think = "what is compared with the limit"
        expect(got is not None, got="None, and there is a way", think=think)
        counts = _expect_counts_of_cut(expect, got, 60, 10)
        got = f"{counts}, with a device that is too full"
        expect(
            _cut_fits_memory(memory, counts, limit),
            got=got,
            think="each device's memory",
        )
        slowest = _slowest_of_cut(times, sends, counts)
        best = _best_cut_by_levels(times, sends, memory, 10, limit)
        expect(
            slowest <= best,
            got=f"{counts}: the slowest device takes {slowest}, and {best} is possible",
            think="what the table must remember for each number of layers",
        )


def _best_cut_by_levels(times, sends, memory, devices, limit) -> float:
    """By another way than the exercise: try each level that a device could have."""
    n = len(times)
    own = {
        (a, b): sum(times[a:b]) + (sends[b - 1] if b < n else 0)
        for a, b in combinations(range(n + 1), 2)
        if sum(memory[a:b]) <= limit
    }
    levels, low = sorted(set(own.values())), 0
    high = len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        reached = {0}
        for _ in range(devices):
            reached = {
                b for (a, b), t in own.items() if a in reached and t <= levels[middle]
            }
        low, high = (low, middle) if n in reached else (middle + 1, high)
    return levels[low]


# 14a-tied -----------------------------------------------------------------------------

TIED = [
    TiedCase((16, 64), torch.float32),
    TiedCase((3, 5), torch.float64),
    TiedCase((4, 7), torch.float64, turned=True),
    TiedCase((1,), torch.float32),
    TiedCase((300, 400), torch.float32),
    TiedCase((6, 2), torch.float32, none_on=0),
    TiedCase((6, 2), torch.float64, none_on=1),
    TiedCase((8, 4), torch.bfloat16),
]
HOLDERS = {2: (0, 1), 3: (0, 2), 5: (4, 1)}


@exercise(
    "14a-tied",
    in_ranks=True,
    when_hung="what the other holder does meanwhile: does anybody receive while both "
    "send? And do ranks that hold no copy have to take part",
)
def check_14a_tied(sum_tied_gradients):
    for ranks, holders in HOLDERS.items():
        think = "what this line gets when a gradient is None, or not contiguous, or of "
        think += "another type than float32"
        with trying(
            f"sum_tied_gradients(weight, peer) on ranks {holders} of {ranks}",
            think=think,
        ):
            notes = run_ranks(
                try_tied,
                sum_tied_gradients,
                TIED,
                holders,
                world_size=ranks,
                timeout=PATIENCE,
            )
        for place, case in enumerate(TIED):
            both = [notes[rank][place] for rank in holders]
            _expect_tied(case, holders, both)


def _expect_tied(case: TiedCase, holders: tuple, both: list) -> None:
    kind = str(case.dtype).removeprefix("torch.")
    call = f"sum_tied_gradients of a weight of shape {case.shape}, {kind}"
    if case.none_on is not None:
        call += f", grad None on rank {holders[case.none_on]}"
    with trying(f"{call}, on ranks {holders[0]} and {holders[1]}") as expect:
        parts = [g for g in tied_gradients(case) if g is not None]
        total = sum(parts[1:], parts[0])
        for rank, notes in zip(holders, both, strict=True):
            expect(
                notes.unchanged,
                got=f"another weight on rank {rank} than before",
                think="what is to be added up: gradients. The optimiser steps later",
            )
            expect(
                notes.gradient is not None and notes.gradient.shape == total.shape,
                got=f"on rank {rank}, no gradient of the weight's shape",
                think="where the sum is to be afterwards: in `weight.grad` of both",
            )
        for rank, notes in zip(holders, both, strict=True):
            _expect_tied_sum(expect, rank, notes.gradient, total)
        for rank, peer, notes in zip(holders, holders[::-1], both, strict=True):
            expect(
                notes.returned is None,
                got=f"rank {rank} returned {notes.returned}",
                think="where the sum is to be: in `weight.grad`",
            )
            _expect_tied_messages(expect, rank, peer, notes.meter, total.nbytes)
        expect(
            torch.equal(both[0].gradient, both[1].gradient),
            got="two sums that differ in their last bits",
            think="what keeps two copies equal: the same bits on both",
        )


def _expect_tied_sum(expect, rank: int, gradient, total) -> None:
    close = {torch.float64: 1e-12, torch.float32: 1e-5}.get(total.dtype, 0.05)
    right = gradient.dtype == total.dtype and torch.allclose(
        gradient, total, rtol=close, atol=close
    )
    think = "what each holder has to know: its own gradient and the other one's. Which "
    think += "of them is in the sum, and how often"
    if gradient.dtype == total.dtype and torch.allclose(gradient * 2, total, rtol=0.05):
        think = "what is asked for: the sum, or the mean"
    elif torch.allclose(gradient.to(total.dtype), total, rtol=0.01, atol=0.01):
        think = "the type of what is sent and of what is kept: that of the weight"
    expect(right, got=f"on rank {rank}, another gradient than the sum", think=think)


def _expect_tied_messages(expect, rank: int, peer: int, meter, size: int) -> None:
    expect(
        not meter.collectives,
        got=f"the sum, by {', '.join(meter.collectives)}",
        think="which ranks would have to call that: others hold no copy",
    )
    expect(
        meter.sent_to == {peer: size}
        and meter.received_from == {peer: size}
        and meter.messages_sent == 1,
        got=f"rank {rank} sent {meter.sent_to} bytes (by rank) in "
        f"{meter.messages_sent} messages and received {meter.received_from}; one "
        f"message of {size} bytes each way is enough",
        think="what the other holder needs to know: your gradient, once",
    )
    expect(
        not meter.not_awaited,
        got=f"{meter.not_awaited} messages of rank {rank} that nobody waited for",
        think="what isend and irecv give back, and when a tensor may be used again",
    )
