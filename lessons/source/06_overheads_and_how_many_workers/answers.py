"""Answers to the exercises of lesson 06 that people give, and that are not right."""

import heapq
import math
from collections import OrderedDict
from functools import reduce
from statistics import median

import numpy as np

from lessons.source.sample_answers import right, wrong

KEY = {
    "A": "a lock",
    "B": "small pieces",
    "C": "uneven shares",
    "D": "a serial part",
}


# 06-best ------------------------------------------------------------------------------


def constants(timings):
    rows = [[1, 1 / k, k] for k, _ in timings]
    return np.linalg.lstsq(np.array(rows), [time for _, time in timings])[0]


@wrong(
    "06-best",
    advice="must it have been measured",
    note="The most common one: chooses among what was tried.",
)
def fastest_measured(timings, most):
    return min(timings, key=lambda pair: pair[1])[0]


@wrong(
    "06-best",
    advice="where is it lowest|two neighbours",
    note="√6.2 = 2.49, and 3 workers are better than 2.",
)
def rounds_the_square_root(timings, most):
    _, b, c = constants(timings)
    return min(most, max(1, round(math.sqrt(b / c))))


@wrong(
    "06-best",
    advice=r"T\(\d+\) =",
    note="Amdahl's law: it always wants all the workers there are.",
)
def forgets_c(timings, most):
    rows = [[1, 1 / k] for k, _ in timings]
    a, b = np.linalg.lstsq(np.array(rows), [time for _, time in timings])[0]
    return min(range(1, most + 1), key=lambda k: a + b / k)


@wrong(
    "06-best",
    advice="counts more",
    note="As the lesson does. The exercise says: all timings.",
)
def fits_the_medians(timings, most):
    seconds = {}
    for k, time in timings:
        seconds.setdefault(k, []).append(time)
    return best([(k, median(times)) for k, times in seconds.items()], most)


@wrong(
    "06-best",
    advice="does your range reach it",
    note="range(1, most) ends before most.",
)
def stops_before_most(timings, most):
    return best(timings, most - 1)


def best(timings, most):
    a, b, c = constants(timings)
    return min(range(1, most + 1), key=lambda k: a + b / k + c * k)


@wrong(
    "06-best",
    advice="whole number",
    note="2.49 workers.",
)
def returns_the_square_root(timings, most):
    _, b, c = constants(timings)
    return float(math.sqrt(b / c))


@right("06-best")
def solves_the_normal_equations(timings, most):
    k, seconds = np.array(timings, dtype=float).T
    rows = np.stack([k**0, 1 / k, k], axis=1)
    law = np.linalg.solve(rows.T @ rows, rows.T @ seconds)
    crews = np.arange(1, most + 1)
    return np.argmin(law @ [crews**0, 1 / crews, crews]) + 1


@right("06-best")
def walks_from_one_to_the_next(timings, most):
    """From k to k + 1 is worth it if c is less than b / (k (k + 1))."""
    _, b, c = constants(timings)
    gains = [b / k / (k + 1) - c for k in range(1, most)]
    sums = reduce(lambda done, gain: [*done, done[-1] + gain], gains, [0.0])
    return 1 + sums.index(max(sums))


# 06-chunk -----------------------------------------------------------------------------


def done(tasks, workers, overhead, size):
    free = [0.0] * workers
    for start in range(0, len(tasks), size):
        free.sort()
        free[0] += overhead + sum(tasks[start : start + size])
    return max(free)


@wrong(
    "06-chunk",
    advice="free first|next chunk",
    note="Chunk 3 goes to worker 1 even if worker 2 is free before.",
)
def deals_in_turn(tasks, workers, overhead):
    def last(size):
        free = [0.0] * workers
        for number, start in enumerate(range(0, len(tasks), size)):
            free[number % workers] += overhead + sum(tasks[start : start + size])
        return max(free)

    return min(range(1, len(tasks) + 1), key=last)


@wrong(
    "06-chunk",
    advice="fall, rise and fall|every size",
    note="The curve has more than one valley.",
)
def stops_at_the_first_valley(tasks, workers, overhead):
    size = 1
    while size < len(tasks) and done(tasks, workers, overhead, size + 1) <= done(
        tasks, workers, overhead, size
    ):
        size += 1
    return size


@wrong(
    "06-chunk",
    advice="the example",
    note="Best balance, and the most messages.",
)
def always_one(tasks, workers, overhead):
    return 1


@wrong(
    "06-chunk",
    advice="the example",
    note="Fewest messages. Whoever has the long tasks is waited for.",
)
def a_chunk_for_each_worker(tasks, workers, overhead):
    return math.ceil(len(tasks) / workers)


@wrong(
    "06-chunk",
    advice="chunks of",
    note="Balances only.",
)
def ignores_the_overhead(tasks, workers, overhead):
    return min(range(1, len(tasks) + 1), key=lambda s: done(tasks, workers, 0, s))


@wrong(
    "06-chunk",
    advice="the order of the tasks|the example",
    note="A good idea, and another contract: the tasks keep their order.",
)
def hands_out_the_longest_first(tasks, workers, overhead):
    tasks = sorted(tasks, reverse=True)
    return min(
        range(1, len(tasks) + 1), key=lambda s: done(tasks, workers, overhead, s)
    )


@right("06-chunk")
def with_a_heap(tasks, workers, overhead):
    def last(size):
        free = [0] * workers
        for start in range(0, len(tasks), size):
            chunk = overhead + sum(tasks[start : start + size])
            heapq.heapreplace(free, free[0] + chunk)
        return max(free)

    return 1 + np.argmin([last(size + 1) for size in range(len(tasks))])


@right("06-chunk")
def from_the_largest_down(tasks, workers, overhead):
    found = len(tasks)
    for size in range(len(tasks), 0, -1):
        if done(tasks, workers, overhead, size) < done(tasks, workers, overhead, found):
            found = size
    return found


# 06-timelines -------------------------------------------------------------------------


wrong(
    "06-timelines",
    advice="A: .*both workers are busy",
    note="Worker 2 does begin later. But it waits again, and again.",
    name="takes_turns_for_slow_start",
)(KEY | {"A": "slow start"})
wrong(
    "06-timelines",
    advice="B: .*hand out",
    note="Sees that lanes alternate. The two workers do not: main does.",
    name="takes_a_lock_for_small_pieces",
)(KEY | {"B": "a lock"})
wrong(
    "06-timelines",
    advice="C: how many pieces",
    note="One worker idle looks like one worker too many.",
    name="takes_uneven_for_too_many_threads",
)(KEY | {"C": "too many threads"})
wrong(
    "06-timelines",
    advice="D: .*has to end",
    note="Ask what main does meanwhile: its lane says so.",
    name="takes_serial_for_slow_start",
)(KEY | {"D": "slow start"})
wrong(
    "06-timelines",
    advice="one cause for each",
    note="Has left one out.",
    name="only_three",
)({"A": "a lock", "B": "small pieces", "C": "uneven shares"})
wrong(
    "06-timelines",
    advice="words to choose from",
    note="Right, and not one of the words to choose from.",
    name="own_words",
)(KEY | {"D": "Amdahl"})
right("06-timelines", name="in_another_order")(dict(reversed(KEY.items())))
right("06-timelines", name="an_ordered_dictionary")(OrderedDict(KEY))
