"""The checks of lesson 14a: messages that autograd drives, the cut, tied weights."""

import random
from itertools import combinations, pairwise

import torch

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.rank_trials import (
    expect_single_messages,
    expect_tensor,
    run_trial,
)

from .chains_and_tied_weights import (
    TIED_SHAPES,
    chain_in_one_piece,
    tied_gradients,
    try_send_forward,
    try_tied,
)

# 14a-send -----------------------------------------------------------------------------

CROSSING = [(4, 6), (3, 2, 5), (200, 300)]


@exercise(
    "14a-send",
    in_ranks=True,
    when_hung="which rank sends and which receives: for each message of a rank, "
    "forward and back, the other one must receive exactly one",
)
def check_14a_send(send_forward):
    for ranks in 2, 3, 5:
        think = "what this line needs: the rank that is given as `target`, the shape "
        think += "of what travels, one number to return, one gradient for each input"
        call = f"SendForward.apply(leaving, target) in {ranks} ranks, each to the one "
        call += f"before it, of shapes {CROSSING}, and then all their backwards"
        with trying(call, think=think) as expect:
            of_ranks = run_trial(try_send_forward, send_forward, CROSSING, ranks=ranks)
            _expect_chains(expect, of_ranks)


def _expect_chains(expect, of_ranks) -> None:
    ranks, size = len(of_ranks), sum(torch.zeros(shape).nbytes for shape in CROSSING)
    for rank, notes in enumerate(of_ranks):
        expect(
            notes.unchanged,
            got=f"other activations on rank {rank} than before",
            think="what else uses the activations, until backward has ended: the "
            "layers in front",
        )
        for shape, gradient in zip(CROSSING, notes.gradients, strict=True):
            whole = chain_in_one_piece(shape, ranks)[rank]
            think = "what `backward` returns: the gradient that has arrived, and "
            think += "nothing added or divided"
            where = f"on rank {rank}, shape {shape}, the gradient of its weight"
            expect_tensor(expect, where, gradient, whole, think, 1e-4)
        sent = {r: size for r in (rank - 1, rank + 1) if 0 <= r < ranks}
        meter, messages = notes.meter, len(CROSSING) * len(sent)
        expect(
            not meter.collectives and meter.sent_to == sent,
            got=f"rank {rank} sent {meter.sent_to} bytes (by rank) and called "
            f"{list(meter.collectives)}; {sent} was enough, point to point",
            think="what has to travel: the activations once, their gradient once",
        )
        expect(
            meter.messages_sent == meter.messages_received == messages
            and not meter.not_awaited,
            got=f"{meter.messages_sent} messages sent by rank {rank}, "
            f"{meter.not_awaited} of them not waited for; needed: {messages}",
            think="what isend and irecv give back, and when it is done",
        )


# 14a-balanced-cut ---------------------------------------------------------------------

FREE, ONES = [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]
FOUR = [3, 1, 1, 3], [1, 9, 1, 1], ONES[:4]
CUTS = [  # times, sends, memory, devices, limit, and what a wrong list overlooks
    (
        [*ONES[:4], 8],
        FREE,
        ONES,
        2,
        5,
        "the slowest device: can it have fewer layers? One slow layer may fill one",
    ),
    (FOUR[0], FREE[:4], ONES[:4], 2, 4, "what is left for the other devices"),
    ([*ONES[:4], 8], FREE, ONES, 2, 3, "the memory of each device"),
    (*FOUR, 2, 4, "the messages: a device also takes the time to send its last output"),
    ([2, 2, 1], [1, 1, 9], ONES[:3], 2, 3, "the last device: it sends nothing"),
    (*FOUR, 2, 2, "the memory of each device"),
    (*FOUR, 2, 1, ""),
    (*FOUR, 5, 9, ""),
    (*FOUR, 4, 1, "the form of the list"),
    ([5], [7], [2], 1, 2, "the form of the list"),
]
EVERY_WAY = "whether every way that fits was compared, by the sum of each device's "
EVERY_WAY += "layers and one message, its last layer's; the last device sends none"


@exercise(
    "14a-balanced-cut",
    seconds=30,
    when_hung="how many ways there are to cut 60 layers for 10 devices. What do you "
    "know already when you add one more device",
)
def check_14a_balanced_cut(balanced_cut):
    for case in CUTS:
        _try_cut(balanced_cut, *case)
    _try_cut(balanced_cut, [1, 1, 1, 2], [0, 0, 3, 0], ONES[:4], 3, 4, EVERY_WAY)
    for number in range(100):
        _try_cut(balanced_cut, *_drawn_layers(random.Random(number)), EVERY_WAY)
    _try_long_cut(balanced_cut)


def _drawn_layers(dice: random.Random) -> tuple:
    """Layers with times and sends in halves, so that sums of them are exact."""
    layers = dice.randint(1, 9)
    times, sends = ([dice.randint(0, 18) / 2 for _ in range(layers)] for _ in "ts")
    memory = [dice.randint(1, 9) for _ in times]
    devices = dice.randint(1, min(layers, 5))
    tight = dice.randint(max(memory), sum(memory) * 2 // (devices + 1) + max(memory))
    limit = dice.choice([tight, sum(memory)])
    return times, sends, memory, devices, limit


def _slowest(times, sends, counts) -> float:
    edges = [sum(counts[:place]) for place in range(len(counts) + 1)]
    behind = [*sends[:-1], 0]
    return max(sum(times[a:b]) + behind[b - 1] for a, b in pairwise(edges))


def _fits(memory, counts, limit) -> bool:
    return _slowest(memory, [0] * len(memory), counts) <= limit


def _best_of_all(times, sends, memory, devices, limit) -> float | None:
    ways = (
        [b - a for a, b in pairwise((0, *cuts, len(times)))]
        for cuts in combinations(range(1, len(times)), devices - 1)
    )
    fitting = (way for way in ways if _fits(memory, way, limit))
    return min((_slowest(times, sends, way) for way in fitting), default=None)


def _try_cut(balanced_cut, times, sends, memory, devices, limit, overlooked) -> None:
    call = f"balanced_cut({times}, {sends}, {memory}, {devices}, {limit})"
    best = _best_of_all(times, sends, memory, devices, limit)
    with trying(call, times, sends, memory) as expect:
        got = balanced_cut(times, sends, memory, devices, limit)
        if best is None:
            think = "whether there is any way at all: each device needs at least one "
            think += "layer, and the memory of each has a limit. If not, None"
            expect(got is None, got=got, think=think)
            return
        think = "a device that needs exactly the limit: it fits"
        expect(got is not None, got="None, and there is a way", think=think)
        counts = _expect_counts(expect, got, len(times), devices)
        expect(
            _fits(memory, counts, limit),
            got=f"{counts}, where a device holds more than {limit}",
            think="the memory of each device: is it looked at for each of them",
        )
        slowest = _slowest(times, sends, counts)
        expect(
            slowest == best,
            got=f"{counts}: the slowest device takes {slowest}, and {best} is possible",
            think=overlooked,
        )


def _expect_counts(expect, got, layers: int, devices: int) -> list[int]:
    think = "the form of the answer: a list of numbers of layers, one for each device"
    listed = hasattr(got, "__len__") and len(got) == devices
    flat = listed and not any(hasattr(count, "__len__") for count in got)
    expect(flat, got=got, think=think)
    think = f"how many layers each device gets, of {layers} in all: do they add up?"
    expect(sum(got) == layers, got=got, think=think)
    expect(min(got) >= 1, got=got, think="what a device does that has no layer")
    return [int(count) for count in got]


def _try_long_cut(balanced_cut) -> None:
    """Ten groups of six layers that take 30 each: no cut can be faster than 30."""
    dice, times = random.Random(60), []
    for _ in range(10):
        edges = [0, *sorted(dice.sample(range(1, 30), 5)), 30]
        times += [b - a for a, b in pairwise(edges)]
    with trying("balanced_cut of 60 layers for 10 devices") as expect:
        got = balanced_cut(times, [0] * 60, [1] * 60, 10, 60)
        counts = _expect_counts(expect, got, 60, 10)
        slowest = _slowest(times, [0] * 60, counts)
        think = "what the table must remember for each number of layers"
        expect(slowest == 30, got=f"{slowest}, and 30 is possible", think=think)


# 14a-tied -----------------------------------------------------------------------------

HOLDERS = {2: (0, 1), 3: (0, 2), 5: (4, 1)}


@exercise(
    "14a-tied",
    in_ranks=True,
    when_hung="what the other holder does meanwhile: both in send, or both in recv, "
    "wait for each other. And do ranks that hold no copy have to take part",
)
def check_14a_tied(sum_tied_gradients):
    for ranks, holders in HOLDERS.items():
        call = f"sum_tied_gradients(weight, peer) on ranks {holders} of {ranks}"
        think = "what each of the two sends, and into which tensor it receives"
        with trying(call, think=think):
            notes = run_trial(try_tied, sum_tied_gradients, holders, ranks=ranks)
        for place, shape in enumerate(TIED_SHAPES):
            both = [notes[rank][place] for rank in holders]
            by_hand = ", gradients 1 and 3, weights 10" if shape == (1,) else ""
            with trying(f"{call}, shape {shape}{by_hand}") as expect:
                _expect_tied(expect, sum(tied_gradients(shape)), holders, both)
                expect(
                    torch.equal(both[0].gradient, both[1].gradient),
                    got="two sums that differ in their last bits",
                    think="what keeps two copies equal: the same bits on both",
                )


def _expect_tied(expect, total, holders: tuple, both: list) -> None:
    for rank, notes in zip(holders, both, strict=True):
        expect(
            notes.unchanged,
            got=f"another weight on rank {rank} than before",
            think="what is to be added up: gradients. The optimiser steps later",
        )
        expect(
            notes.returned is None,
            got=f"rank {rank} returned {notes.returned}",
            think="where the sum is to be: in `weight.grad`",
        )
        think = "what this number is made of: asked for is the sum of both gradients, "
        think += "each once, and nothing divided"
        where = f"on rank {rank}, weight.grad"
        expect_tensor(expect, where, notes.gradient, total, think, 1e-5)
    for rank, peer, (_, meter, *_) in zip(holders, holders[::-1], both, strict=True):
        expect_single_messages(expect, rank, meter)
        expect(
            meter.sent_to == {peer: total.nbytes} and meter.messages_sent == 1,
            got=f"rank {rank} sent {meter.sent_to} bytes (by rank) in "
            f"{meter.messages_sent} messages; one of {total.nbytes} bytes is enough",
            think="what the other holder needs to know: your gradient, once",
        )
