"""Checks of the exercises of lesson 06, Overheads and how many workers."""

import operator
import random

from sidebyside.exercises import exercise, expect

CAUSES = {
    "A": ("a lock", "is there a moment at which both workers are busy?"),
    "B": (
        "small pieces",
        "how long does main take to hand out a piece, and how often does it?",
    ),
    "C": ("uneven shares", "count the pieces of each worker"),
    "D": ("a serial part", "what has to end before the first worker begins?"),
}
CHOICES = [cause for cause, _ in CAUSES.values()] + ["slow start", "too many threads"]


@exercise("06-timelines")
def check_timelines(causes):
    expect(
        isinstance(causes, dict) and set(causes) == set(CAUSES),
        tried="causes",
        got=causes,
        think='one cause for each of A, B, C and D: {"A": "slow start", "B": ...}',
    )
    unknown = [cause for cause in causes.values() if cause not in CHOICES]
    expect(
        not unknown,
        tried="the causes",
        got=unknown,
        think=f"choose among {', '.join(map(repr, sorted(CHOICES)))}",
    )
    wrong = [name for name, (cause, _) in CAUSES.items() if causes[name] != cause]
    expect(
        not wrong,
        tried="your four causes",
        got=f"{len(CAUSES) - len(wrong)} right, of {len(CAUSES)}",
        think=f"look at {wrong[0]} again: {CAUSES[wrong[0]][1]}" if wrong else "",
    )


def _seconds(a: float, b: float, c: float, workers: int) -> float:
    return a + b / workers + c * workers


def _is_whole(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


@exercise("06-best")
def check_best(best_workers):
    def try_out(costs, crews, most: int, think: str) -> None:
        got = best_workers([(k, _seconds(*costs, k)) for k in crews], most)
        a, b, c = costs
        tried = f"best_workers(timings, {most}), timings of {list(crews)} workers "
        tried += f"with a = {a:g}, b = {b:g}, c = {c:g}"
        expect(_is_whole(got), tried, got, "return one whole number")
        got = operator.index(got)
        expect(1 <= got <= most, tried, got, f"at least 1 and at most {most} workers")
        known = sorted((_seconds(*costs, k), k) for k in range(1, most + 1))
        right = known[0][1]
        explained = f"T({got}) = {_seconds(*costs, got):.4g}, and T({right}) = "
        explained += f"{known[0][0]:.4g}. {think}"
        expect(got == right, tried, got, explained)

    try_out(
        (1, 16.5, 1), [1, 2, 4, 8], 8,
        "you find the better one among the timings themselves: do a, b, c stand in "
        "the order of your columns?",
    )  # fmt: skip
    try_out((1, 37, 1), [1, 2, 4, 8], 16, "the best number need not have been measured")
    try_out(
        (1, 6.2, 1), [1, 2, 4, 8], 16,
        "the curve is steeper at the left, so do not round the square root: compare "
        "both neighbours",
    )  # fmt: skip
    try_out(
        (0.5, 90, 0.2), [1, 2, 4, 8], 12,
        "`most` itself is allowed: does your range reach it?",
    )  # fmt: skip
    try_out((2, 0.4, 1), [1, 2, 3], 16, "it may be best to have one worker only")
    try_out((50, 25, 1), [8, 1, 4, 2], 20, "what has a to do with the best number?")
    raw = [(1, 48), (1, 46), (2, 33), (4, 16), (4, 16), (8, 22)]
    got = best_workers(list(raw), 16)
    expect(
        _is_whole(got) and got == 5,  # their means or medians give 6
        f"best_workers({raw}, 16)",
        got,
        "each of these timings is one row of the fit, so a number that was measured "
        "more often counts more; and the rows are T, not a multiple of it",
    )
    dice = random.Random(6)
    for _ in range(100):
        b_over_c = dice.randint(1, 12)
        between = b_over_c * (b_over_c + 1) - b_over_c * dice.uniform(0.2, 0.8)
        c = dice.uniform(0.01, 2)
        crews = dice.sample(range(1, 20), dice.randint(4, 7))
        costs = (dice.uniform(0, 5), between * c, c)
        try_out(costs, crews, 24, "compute T for every number that is allowed")


def _done(tasks: list, workers: int, overhead: float, size: int) -> float:
    """When the last of `workers` is done, if a free one takes the next chunk."""
    free = [0] * workers
    for start in range(0, len(tasks), size):
        free.sort()
        free[0] += overhead + sum(tasks[start : start + size])
    return max(free)


@exercise("06-chunk", seconds=20)
def check_chunk(chunk_size):
    def try_out(tasks: list, workers: int, overhead: float, think: str) -> None:
        got = chunk_size(list(tasks), workers, overhead)
        tried = f"chunk_size({tasks}, {workers}, {overhead})"
        expect(_is_whole(got), tried, got, "return one whole number: a size")
        got = operator.index(got)
        expect(
            1 <= got <= len(tasks), tried, got, "a size from 1 to the number of tasks"
        )
        done = {s: _done(tasks, workers, overhead, s) for s in range(1, len(tasks) + 1)}
        best = min(done, key=done.get)
        expect(
            done[got] <= done[best] + 1e-9,
            tried,
            got,
            f"chunks of {got} are done after {done[got]:g}, chunks of {best} after "
            f"{done[best]:g}. {think}",
        )

    try_out([1, 1, 1, 1, 4], 2, 1, "the example: draw its timelines")
    try_out([5, 1, 1, 1, 1, 1], 2, 0, "without overhead, small chunks balance best")
    try_out([1, 1, 1, 1, 1, 1], 2, 5, "with much overhead, few chunks are best")
    try_out([2, 3, 4], 1, 1, "one worker has nobody to share with")
    try_out([7], 3, 1, "one task: there is one size only")
    try_out([1] * 8 + [8], 2, 1, "try every size up to the number of tasks")
    try_out(
        [1, 6, 1, 6, 1, 1], 2, 0.5,
        "who is free first? It need not be whose turn it is. And the times may fall, "
        "rise and fall again: try every size",
    )  # fmt: skip
    dice = random.Random(6)
    for _ in range(150):
        tasks = [dice.choice([1, 1, 1, 2, 3, 9]) for _ in range(dice.randint(2, 14))]
        try_out(
            tasks,
            dice.randint(1, 4),
            dice.choice([0, 0.5, 1, 3]),
            "a free worker takes the next chunk, and each chunk costs its overhead: "
            "draw the timeline of both sizes",
        )
