"""The checks of lesson 19a: bytes per link, messages that travel, overlap."""

import random
from functools import partial
from itertools import product

import numpy as np

from parallel_by_hand.collectives.all_reduce_costs import messages_and_bytes
from parallel_by_hand.pipeline.schedules import Schedule, gpipe, one_f_one_b
from sidebyside.exercises.any_number import as_number
from sidebyside.exercises.check import exercise, trying

GROUPS = "tensor group", "pipeline", "replicas"


def _close_to_simulated(got: float, expected: float) -> bool:
    return abs(got - expected) <= 1e-6 * max(1, abs(expected))


def _expect_simulated_seconds(
    expect, got: object, expected: float, told: str, think
) -> None:
    number = expect.number(got, "seconds, as a number")
    expect(
        _close_to_simulated(number, expected),
        got=f"{number:.9g} seconds, not {expected:.9g}: {told}",
        think=think(number),
    )


# 19a-bytes ----------------------------------------------------------------------------

BY_HAND = (4, 10, 5, 2, 2, 2, 4)  # layers, hidden, tokens, micro-batches, degrees


def _simulated_bytes_cases() -> list[tuple[int, ...]]:
    """Degrees from 1 up; all divide evenly."""
    return [BY_HAND, (*BY_HAND[:6], 2), (6, 1, 1, 1, 1, 1, 1)] + [
        (24, 120, 11, 3, data, tensor, pipeline)
        for data, tensor, pipeline in product((1, 2, 5), (1, 3), (1, 2, 3))
    ]


def _simulated_bytes_of_gpu(
    layers: int,
    hidden: int,
    tokens: int,
    count: int,
    data: int,
    tensor: int,
    stages: int,
) -> tuple[float, float, float]:
    message, own = 2 * tokens * hidden, layers // stages
    gradients = 2 * 12 * hidden**2 * own / tensor
    return (
        4 * own * count * messages_and_bytes("ring", tensor, message)[1],
        ((stages > 1) + (stages > 2)) * count * message,
        messages_and_bytes("ring", data, gradients)[1],
    )


@exercise("19a-bytes")
def check_19a_bytes(bytes_sent):
    for case in _simulated_bytes_cases():
        with trying(f"bytes_sent{case}") as expect:
            got = bytes_sent(*case)
            several = isinstance(got, tuple | list | np.ndarray)
            numbers = [as_number(number) for number in got] if several else []
            expect(
                len(numbers) == len(GROUPS) and None not in numbers,
                got=got,
                think="what is asked for: three numbers, for the tensor group, the "
                "pipeline and the replicas",
            )
            expected = _simulated_bytes_of_gpu(*case)
            for group, number, right in zip(GROUPS, numbers, expected, strict=True):
                expect(
                    _close_to_simulated(number, right),
                    got=f"{number:,.9g} bytes to the {group}, not {right:,.9g}",
                    think=_think_of_simulated_bytes(group, case),
                )


def _think_of_simulated_bytes(group: str, case: tuple[int, ...]) -> str:
    *_, data, tensor, pipeline = case
    if group == "pipeline":
        return (
            f"how many neighbours the busiest of {pipeline} stages has, and what each "
            "micro-batch sends to each of them"
        )
    if group == "replicas":
        return (
            "whose gradients travel, once in a step, 2 bytes each: those of one of "
            f"{tensor} tensor ranks and {pipeline} stages; and a ring of {data}"
        )
    return (
        "the four rings for each of its own layers and each micro-batch: whose layers, "
        f"over {tensor} ranks, and how many bytes for tokens * hidden numbers"
    )


# 19a-pipeline -------------------------------------------------------------------------


def _simulated_seconds_with_travel(schedule: Schedule, forward, backward, travel):
    """When each instruction ends: times are repeated until none of them changes."""
    ends, before = {}, None
    while ends != before:
        before = dict(ends)
        for rank, order in enumerate(schedule):
            free = 0.0
            for work in order:
                sender = rank - 1 if work[0] == "F" else rank + 1
                message = 0 <= sender < len(schedule)
                arrived = ends.get((sender, work), 0) + travel if message else 0
                takes = (forward if work[0] == "F" else backward)[rank]
                free = ends[rank, work] = max(free, arrived) + takes
    return ends


def _simulated_pipeline_cases() -> list[tuple]:
    """(name, schedule, forward, backward, travel)."""
    cases = [("gpipe(2, 2)", gpipe(2, 2), [1, 1], [2, 2], travel) for travel in (1, 0)]
    cases += [("gpipe(1, 3)", gpipe(1, 3), [2], [3], 5)]
    drawn = random.Random(19)
    for count, make, ranks in product((1, 4, 13), (gpipe, one_f_one_b), (2, 3, 5, 8)):
        name = f"{make.__name__}({ranks}, {count})"
        forward = [drawn.randint(1, 8) / 4 for _ in range(ranks)]
        backward = [drawn.randint(2, 16) / 4 for _ in range(ranks)]
        travel = drawn.choice((0, 0.25, 1, 3, 9))
        cases.append((name, make(ranks, count), forward, backward, travel))
    in_turn = [["F0", "B0", "F1", "B1"]] * 2  # F1 arrives early, and has to wait
    return [*cases, (f"{in_turn}", in_turn, [1, 1], [2, 2], 1)]


@exercise(
    "19a-pipeline",
    when_hung="what happens in a turn in which no rank can do its next instruction, "
    "and whether the loop ends when all of them are done",
)
def check_19a_pipeline(pipeline_seconds):
    for name, schedule, forward, backward, travel in _simulated_pipeline_cases():
        ends, of_none = (
            _simulated_seconds_with_travel(schedule, forward, backward, seconds)
            for seconds in (travel, 0)
        )
        expected, without = max(ends.values()), max(of_none.values())
        shown = ", ".join(f"{work} at {ends[0, work]:g}" for work in schedule[0][:5])
        leaves = schedule, forward, backward
        with trying(
            f"pipeline_seconds({name}, {forward}, {backward}, {travel})",
            *leaves,
            think="an instruction that may not be done yet when it is needed",
        ) as expect:
            _expect_simulated_seconds(
                expect,
                pipeline_seconds(*leaves, travel),
                expected,
                f"rank 0 ends {shown}",
                partial(_think_of_simulated_travel, schedule, expected, without),
            )


def _think_of_simulated_travel(
    schedule: Schedule, expected: float, without: float, got: float
) -> str:
    if "F12" in schedule[0]:
        return "what tells F1 from F12: with fewer micro-batches, all was right"
    if _close_to_simulated(expected, without):
        return (
            "what an instruction waits for: its rank, and the same instruction on the "
            "rank before (F) or after (B)"
        )
    if _close_to_simulated(got, without):
        return "travel, forward and on the way back: this is the time without it"
    if got < expected:
        return (
            "what each instruction waits for: the one before it in its rank's list, "
            "also when it could begin, and a message, forward and on the way back"
        )
    return (
        "who is busy while a message travels (nobody), which instructions need none, "
        "and whether a rank can do something else before it arrives"
    )


# 19a-overlap --------------------------------------------------------------------------


def _simulated_overlap_cases() -> list[tuple[list, list]]:
    cases = [([2, 1, 1], [1, 3, 1]), ([3], [2]), ([1] * 12, [1] * 12)]
    cases += [([1, 1, 1], [9, 1, 1]), ([1, 1, 9], [1, 1, 1])]
    drawn = random.Random(19)
    for layers in (2, 5, 30):
        pairs = ([drawn.randint(1, 20) / 4 for _ in range(layers)] for _ in range(2))
        cases.append(tuple(pairs))
    return cases


@exercise("19a-overlap")
def check_19a_overlap(backward_with_overlap):
    for computing, sending in _simulated_overlap_cases():
        case = computing, sending
        with trying(f"backward_with_overlap({computing}, {sending})", *case) as expect:
            # a message is held up by one layer, and by all messages after that
            leaves = [
                max(sum(computing[: i + 1]) + sum(sending[i:n]) for i in range(n + 1))
                for n in range(len(computing))
            ]
            expected = leaves[-1] + sending[-1]
            _expect_simulated_seconds(
                expect,
                backward_with_overlap(*case),
                expected,
                f"the messages leave at {', '.join(map(str, leaves[:5]))}",
                partial(_think_of_simulated_overlap, expected, *map(sum, case)),
            )


def _think_of_simulated_overlap(expected, backward, sending, got: float) -> str:
    if _close_to_simulated(got, backward + sending):
        return "what may go on at the same time: the link, while backward computes"
    if _close_to_simulated(got, expected - backward):
        return "from when the seconds are counted: from the start of backward"
    if got < expected:
        return (
            "when a message can leave: its layer is done, and the message before it is "
            "through, for the link carries one at a time"
        )
    return "what waits: a message for its layer and the link, a layer for no message"
