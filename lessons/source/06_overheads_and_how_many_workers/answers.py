"""Answers to the exercises of lesson 06 that people give, and that are not right."""

import heapq
import math
from collections import OrderedDict
from fractions import Fraction
from functools import reduce
from statistics import mean, median
from types import MappingProxyType

import numpy as np

from lessons.source.sample_answers import right, wrong

KEY = {
    "A": "a lock",
    "B": "small pieces",
    "C": "uneven shares",
    "D": "a serial part",
}

# 06-timelines


class EqualToAnything(str):
    """A word that no comparison tells from another one."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return True


# 06-best


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
    advice="two neighbours",
    note="√6.2 = 2.49, and 3 workers are better than 2.",
)
def rounds_the_square_root(timings, most):
    _, b, c = constants(timings)
    return min(most, max(1, round(math.sqrt(b / c))))


@wrong(
    "06-best",
    advice="from 1 to 12",
    note="The formula does not know how many workers are allowed.",
)
def forgets_the_limit(timings, most):
    a, b, c = constants(timings)
    return min(range(1, 1000), key=lambda k: a + b / k + c * k)


@wrong(
    "06-best",
    advice=r"T\(\d+\) =",
    note="Without a column of ones, a is pushed into b and c.",
)
def forgets_a(timings, most):
    rows = [[1 / k, k] for k, _ in timings]
    b, c = np.linalg.lstsq(np.array(rows), [time for _, time in timings])[0]
    return min(range(1, most + 1), key=lambda k: b / k + c * k)


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
    note="A dict by workers keeps the last timing of each.",
)
def keeps_one_timing_each(timings, most):
    return best(list(dict(timings).items()), most)


def of_each(function):
    """Fits what `function` makes of the timings of each number of workers."""

    def answer(timings, most):
        seconds = {}
        for k, time in timings:
            seconds.setdefault(k, []).append(time)
        return best([(k, function(times)) for k, times in seconds.items()], most)

    return answer


@wrong(
    "06-best",
    advice="is each of these timings one of them",
    note="Three unknowns, three equations: solved, and the rest thrown away.",
)
def uses_three_timings(timings, most):
    return best(list({k: (k, time) for k, time in timings}.values())[:3], most)


@wrong(
    "06-best",
    advice="T itself, or a multiple",
    note="k·T is a parabola, but then the errors of large k count more.",
)
def fits_a_parabola(timings, most):
    k = np.array([k for k, _ in timings])
    c, a, b = np.polyfit(k, k * np.array([time for _, time in timings]), 2)
    return min(range(1, most + 1), key=lambda k: a + b / k + c * k)


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


@wrong("06-best", advice="whole number", note="2.49 workers.")
def returns_the_square_root(timings, most):
    _, b, c = constants(timings)
    return float(math.sqrt(b / c))


@wrong(
    "06-best",
    advice="whole number",
    note="min of the times, not of the workers: needs key=.",
)
def returns_the_time(timings, most):
    a, b, c = constants(timings)
    return float(min(a + b / k + c * k for k in range(1, most + 1)))


@wrong(
    "06-best",
    advice="which noise can give",
    note="Right for positive constants. With others the curve has no valley.",
)
def compares_the_neighbours_of_the_root(timings, most):
    a, b, c = constants(timings)
    root = math.sqrt(abs(b / c))
    near = {max(1, min(most, math.floor(root))), max(1, min(most, math.ceil(root)))}
    return min(near, key=lambda k: a + b / k + c * k)


@wrong(
    "06-best",
    advice="go through all four",
    note="Another curve, which bends up as well.",
)
def fits_a_plain_parabola(timings, most):
    curve = np.polynomial.Polynomial.fit(*np.array(timings, dtype=float).T, 2)
    return min(range(1, most + 1), key=curve)


@wrong(
    "06-best",
    advice="keeps from its earlier calls",
    note="A list as a default argument is made once, not at each call.",
)
def keeps_the_first_constants(timings, most, kept=[]):  # noqa: B006
    kept.append(constants(timings))
    a, b, c = kept[0]
    return min(range(1, most + 1), key=lambda k: a + b / k + c * k)


keeps_the_first_constants.__module__ = "__main__"  # as if defined in a notebook


@wrong(
    "06-best",
    advice="timings of microseconds",
    note="All numbers look equal then, and the first one wins.",
)
def compares_milliseconds(timings, most):
    a, b, c = constants(timings)
    return min(range(1, most + 1), key=lambda k: round(a + b / k + c * k, 3))


@wrong(
    "06-best",
    advice="is each of these timings one of them",
    note="What is not allowed was measured all the same, and tells of b and c.",
)
def leaves_out_what_is_not_allowed(timings, most):
    allowed = [(k, time) for k, time in timings if k <= most]
    enough = len({k for k, _ in allowed}) >= 3
    return best(allowed if enough else timings, most)


@wrong(
    "06-best",
    advice="T rises first",
    note="Ends at `most`, though T(1) may be smaller.",
)
def comes_down_while_it_falls(timings, most):
    a, b, c = constants(timings)
    k = most
    while k > 1 and a + b / (k - 1) + c * (k - 1) <= a + b / k + c * k:
        k -= 1
    return k


@wrong(
    "06-best",
    advice="every number up to .most.",
    note="A range with an end of one's own.",
)
def tries_as_many_as_1000(timings, most):
    return best(timings, min(most, 1000))


@wrong(
    "06-best",
    advice="who else uses what",
    note="sort() changes the caller's list; sorted() does not.",
)
def sorts_the_timings(timings, most):
    timings.sort()
    return best(timings, most)


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


@wrong(
    "06-best",
    advice="T rises first",
    note="With negative constants T can rise first, and be smallest at `most`.",
)
def stops_where_it_rises(timings, most):
    _, b, c = constants(timings)
    k = 1
    while k < most and b / (k + 1) + c * (k + 1) < b / k + c * k:
        k += 1
    return k


@wrong(
    "06-best",
    advice="is each of these timings one of them",
    note="Often wise, and not what is asked for: all timings, raw.",
)
def leaves_out_what_is_far_off(timings, most):
    usual = {n: median(time for k, time in timings if k == n) for n, _ in timings}
    return best([(k, t) for k, t in timings if t < 1.5 * abs(usual[k])], most)


# 06-chunk


def done(tasks, workers, overhead, size):
    free = [0.0] * workers
    for start in range(0, len(tasks), size):
        free.sort()
        free[0] += overhead + sum(tasks[start : start + size])
    return max(free)


@wrong(
    "06-chunk",
    advice="every size",
    note="A chunk for each worker need not be the largest that pays.",
)
def tries_small_sizes_only(tasks, workers, overhead):
    sizes = range(1, max(2, len(tasks) // workers + 3))
    return min(sizes, key=lambda s: done(tasks, workers, overhead, s))


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


@wrong("06-chunk", advice="the example", note="Best balance, and the most messages.")
def always_one(tasks, workers, overhead):
    return 1


@wrong(
    "06-chunk",
    advice="the example",
    note="Fewest messages. Whoever has the long tasks is waited for.",
)
def a_chunk_for_each_worker(tasks, workers, overhead):
    return math.ceil(len(tasks) / workers)


@wrong("06-chunk", advice="chunks of", note="Balances only.")
def ignores_the_overhead(tasks, workers, overhead):
    return min(range(1, len(tasks) + 1), key=lambda s: done(tasks, workers, 0, s))


@wrong(
    "06-chunk",
    advice="chunks of",
    note="The overhead is paid for a chunk. For a task it would not matter.",
)
def charges_each_task(tasks, workers, overhead):
    dearer = [task + overhead for task in tasks]
    return min(range(1, len(tasks) + 1), key=lambda s: done(dearer, workers, 0, s))


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


@wrong("06-chunk", advice="whole number", note="The time, not the size.")
def returns_the_finish(tasks, workers, overhead):
    sizes = range(1, len(tasks) + 1)
    return min(float(done(tasks, workers, overhead, s)) for s in sizes)


@wrong(
    "06-chunk",
    advice="the example|balance best",
    note="As if every balance were perfect: wants one chunk.",
)
def divides_all_by_the_workers(tasks, workers, overhead):
    def time(size):
        return (sum(tasks) + overhead * math.ceil(len(tasks) / size)) / workers

    return min(range(1, len(tasks) + 1), key=time)


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


@wrong(
    "06-chunk", advice="every size|the example", note="The last chunk may be smaller."
)
def tries_equal_chunks_only(tasks, workers, overhead):
    sizes = [s for s in range(1, len(tasks) + 1) if len(tasks) % s == 0]
    return min(sizes, key=lambda s: done(tasks, workers, overhead, s))


@wrong(
    "06-chunk",
    advice="every size|the example|timeline",
    note="Searches by halves what is no ordered list.",
)
def halves_and_halves(tasks, workers, overhead):
    sizes = [len(tasks)]
    while sizes[-1] > 1:
        sizes.append(sizes[-1] // 2)
    return min(sizes, key=lambda s: done(tasks, workers, overhead, s))


@wrong(
    "06-chunk",
    advice="who else uses what",
    note="Right, and the caller's list is empty.",
)
def takes_the_tasks_away(tasks, workers, overhead):
    copy = list(tasks)
    tasks.clear()
    sizes = range(1, len(copy) + 1)
    return min(sizes, key=lambda s: done(copy, workers, overhead, s))


@wrong("06-chunk", advice="many tasks", note="Quick, and right for powers of two only.")
def tries_powers_of_two_when_there_are_many(tasks, workers, overhead):
    sizes = list(range(1, len(tasks) + 1))
    if len(tasks) > 32:
        sizes = [2**n for n in range(len(tasks).bit_length())] + [len(tasks)]
    return min(sizes, key=lambda size: done(tasks, workers, overhead, size))


@wrong(
    "06-chunk",
    advice="tasks of microseconds",
    note="All sizes look equal then, and the first one wins.",
)
def rounds_to_milliseconds(tasks, workers, overhead):
    sizes = range(1, len(tasks) + 1)
    return min(sizes, key=lambda size: round(done(tasks, workers, overhead, size), 3))


@wrong(
    "06-chunk",
    advice="many tasks",
    note="One worker wants one chunk, however many tasks there are.",
)
def tries_as_many_as_100(tasks, workers, overhead):
    sizes = range(1, min(100, len(tasks)) + 1)
    return min(sizes, key=lambda size: done(tasks, workers, overhead, size))


@wrong(
    "06-chunk", advice="what does each chunk cost", note="An overhead of 0.5 becomes 0."
)
def counts_whole_overheads(tasks, workers, overhead):
    sizes = range(1, len(tasks) + 1)
    return min(sizes, key=lambda size: done(tasks, workers, overhead // 1, size))


@wrong(
    "06-chunk",
    advice="every size",
    note="The other way round, the curve has more than one valley, too.",
)
def comes_down_from_all_tasks(tasks, workers, overhead):
    size, times = len(tasks), [math.inf]
    times += [done(tasks, workers, overhead, s) for s in range(1, len(tasks) + 1)]
    while times[size - 1] <= times[size]:
        size -= 1
    return size


@wrong(
    "06-chunk",
    advice="no overhead: is the smallest chunk best",
    note="The tasks' order can make larger chunks balance better.",
)
def takes_one_where_there_is_no_overhead(tasks, workers, overhead):
    sizes = range(1, len(tasks) + 1) if overhead else [1]
    return min(sizes, key=lambda size: done(tasks, workers, overhead, size))


@wrong(
    "06-chunk",
    advice="cost, and whom",
    note="As if main packed one chunk after the other. The worker pays here.",
)
def lets_main_pay_the_overheads(tasks, workers, overhead):
    def last(size):
        free, main = [0.0] * workers, 0.0
        for start in range(0, len(tasks), size):
            free.sort()
            main = max(main, free[0]) + overhead
            free[0] = main + sum(tasks[start : start + size])
        return max(free)

    return min(range(1, len(tasks) + 1), key=last)


@right("06-chunk")
def with_a_heap(tasks, workers, overhead):
    def last(size):
        free = [0] * workers
        for start in range(0, len(tasks), size):
            chunk = overhead + sum(tasks[start : start + size])
            heapq.heapreplace(free, free[0] + chunk)
        return max(free)

    return 1 + np.argmin([last(size + 1) for size in range(len(tasks))])


@right("06-best")
def fits_in_exact_fractions(timings, most):
    """The normal equations, by elimination."""
    rows = [(1, Fraction(1, k), k, Fraction(seconds)) for k, seconds in timings]
    sums = [[sum(r[i] * r[j] for r in rows) for j in range(4)] for i in range(3)]
    for i in range(3):
        sums[i] = [x / Fraction(sums[i][i]) for x in sums[i]]
        for other in {0, 1, 2} - {i}:
            factor = sums[other][i]
            sums[other] = [
                x - factor * y for x, y in zip(sums[other], sums[i], strict=True)
            ]
    a, b, c = (row[3] for row in sums)
    return min(range(1, most + 1), key=lambda k: a + b / k + c * k)


@right("06-chunk")
def in_exact_fractions(tasks, workers, overhead):
    exact = [Fraction(task) for task in tasks]
    sizes = range(len(tasks), 0, -1)
    return min(sizes, key=lambda s: done(exact, workers, Fraction(overhead), s))


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
wrong(
    "06-timelines",
    advice="one cause for each",
    note="One word for each crew, without brackets.",
    name="a_list_of_words",
)(KEY | {"A": ["a lock"]})
wrong(
    "06-timelines",
    advice="the words to choose from",
    note="Nobody does this by mistake: it is for those who try the check.",
    name="says_yes_to_every_word",
)(dict.fromkeys(KEY, EqualToAnything("guess")))
wrong(
    "06-best",
    advice="counts more",
    note="As the lesson does. The exercise says: all timings.",
    name="fits_the_medians",
)(of_each(median))
wrong(
    "06-best",
    advice="counts more",
    note="Right only if all numbers were measured equally often.",
    name="fits_the_means",
)(of_each(mean))
right("06-timelines", name="in_another_order")(dict(reversed(KEY.items())))
right("06-timelines", name="an_ordered_dictionary")(OrderedDict(KEY))
right("06-timelines", name="read_only")(MappingProxyType(KEY))
