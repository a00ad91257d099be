"""Answers to the exercises of lesson 07 that people give, and that are not right."""

from concurrent.futures import as_completed, wait

import numpy as np

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.practice.pendulum_survey import period, survey

# 07-identical -------------------------------------------------------------------------


def draw(seed, count):
    dice = np.random.default_rng(seed)
    pairs = [(dice.uniform(0.1, 3.1), dice.uniform(0.9, 1.1)) for _ in range(count)]
    return [angle for angle, _ in pairs], [clock for _, clock in pairs]


def added(numbers):
    """As survey adds. From Python 3.12 on, sum() corrects its rounding."""
    total = 0.0
    for number in numbers:
        total += number
    return total


@wrong(
    "07-identical",
    advice="two random numbers .* in which order",
    note="The most common one. Right for one pendulum, so it looks right.",
)
def draws_all_angles_first(pool, seed, count):
    dice = np.random.default_rng(seed)
    angles = [dice.uniform(0.1, 3.1) for _ in range(count)]
    clocks = [dice.uniform(0.9, 1.1) for _ in range(count)]
    return added(p * c for p, c in zip(pool.map(period, angles), clocks)) / count  # noqa: B905


@wrong(
    "07-identical",
    advice="numbers behind the mean",
    note="Lesson 5's advice in a program that must keep its old numbers.",
)
def a_generator_for_each_task(pool, seed, count):
    dice = [np.random.default_rng(seed + n) for n in range(count)]
    periods = pool.map(period, [d.uniform(0.1, 3.1) for d in dice])
    found = [p * d.uniform(0.9, 1.1) for p, d in zip(periods, dice, strict=True)]
    return added(found) / count


@wrong(
    "07-identical",
    advice="one after the other, in the same order",
    note="Differs in the last digit, and not in every run.",
)
def adds_in_order_of_arrival(pool, seed, count):
    angles, clocks = draw(seed, count)
    futures = {
        pool.submit(period, angle): clock
        for angle, clock in zip(angles, clocks, strict=True)
    }
    return added(f.result() * futures[f] for f in as_completed(futures)) / count


@wrong(
    "07-identical",
    advice="who computes each period",
    state="TOO SLOW",
    note="The number is right, and the pool is never used.",
)
def calls_the_serial_one(pool, seed, count):
    return survey(seed, count)


@wrong(
    "07-identical",
    advice="never more than one",
    state="TOO SLOW",
    note="A pool, and one task at a time in it.",
)
def waits_for_each(pool, seed, count):
    angles, clocks = draw(seed, count)
    pairs = zip(angles, clocks, strict=True)
    return added(pool.submit(period, a).result() * c for a, c in pairs) / count


@wrong(
    "07-identical",
    advice="by its name",
    note="Works with threads, not with processes.",
)
def sends_a_lambda(pool, seed, count):
    angles, clocks = draw(seed, count)
    return added(pool.map(lambda a, c: period(a) * c, angles, clocks)) / count


@right("07-identical")
def sends_lists_of_periods(pool, seed, count):
    angles, clocks = draw(seed, count)
    starts = range(0, count, 3)
    futures = [pool.submit(list, map(period, angles[n : n + 3])) for n in starts]
    found = [seconds for future in futures for seconds in future.result()]
    return added(p * c for p, c in zip(found, clocks, strict=True)) / count


@right("07-identical")
def begins_with_the_last(pool, seed, count):
    angles, clocks = draw(seed, count)
    futures = [pool.submit(period, angle) for angle in reversed(angles)]
    pairs = zip(reversed(futures), clocks, strict=True)
    return added(future.result() * clock for future, clock in pairs) / count


# 07-bottlenecks -----------------------------------------------------------------------


wrong(
    "07-bottlenecks",
    advice='"images" again',
    note="Whatever gets slower in a pool is put down to the cost of messages.",
    name="everything_is_a_message",
)({"words": 1, "images": 1, "search": 1})
wrong(
    "07-bottlenecks",
    advice='"words" again',
    note="Packing is dear there too, but the first question comes first.",
    name="words_are_sent",
)({"words": 4, "images": 4, "search": 5})
wrong(
    "07-bottlenecks",
    advice='"images" again',
    note="Large arrays: it is the pipe that is narrow here, before the memory.",
    name="images_crowd_the_memory",
)({"words": 1, "images": 6, "search": 5})
wrong(
    "07-bottlenecks",
    advice='"search" again',
    note="Most of its tasks are short; most of its time is one task.",
    name="search_has_short_tasks",
)({"words": 1, "images": 4, "search": 1})
wrong(
    "07-bottlenecks",
    advice="from 1 to 6",
    note="They write the answer down as a word instead of looking up its number.",
    name="words_for_numbers",
)({"words": "message", "images": "sent", "search": "longest"})
wrong(
    "07-bottlenecks",
    advice="a dictionary of three programs",
    note="They stop at the two that get slower.",
    name="one_is_missing",
)({"words": 1, "images": 4})
right("07-bottlenecks", name="numpy")({"words": np.int64(1), "images": 4, "search": 5})
right("07-bottlenecks", name="in_another_order")({"search": 5, "images": 4, "words": 1})


# 07-finish ----------------------------------------------------------------------------


@right("07-finish")
def as_they_come(work, tasks, pool, done):
    futures = {task: pool.submit(work, task) for task in {*tasks} - {*done}}
    task_of = {future: task for task, future in futures.items()}
    results, failed = done.copy(), {}
    for future in as_completed(task_of):
        try:
            results[task_of[future]] = future.result()
        except Exception as error:
            failed[task_of[future]] = error
    return [results, failed]


@right("07-finish")
def four_at_a_time(work, tasks, pool, done):
    missing = [task for task in tasks if task not in done]
    results, failed = {**done}, {}
    while missing:
        futures = submit_all(work, missing[:4], pool, {})
        wait(futures.values())
        for task, future in futures.items():
            error = future.exception()
            (results if error is None else failed)[task] = error or future.result()
        missing = missing[4:]
    return results, failed


@wrong(
    "07-finish",
    advice="stops no other",
    note="map hands on the first exception, and the other results are lost.",
)
def maps_what_is_missing(work, tasks, pool, done):
    missing = [task for task in tasks if task not in done]
    return done | dict(zip(missing, pool.map(work, missing), strict=True)), {}


@wrong(
    "07-finish",
    advice="when you ask for the first result",
    state="TOO SLOW",
    note="submit and result in one loop: a pool that works alone.",
)
def waits_for_each_task(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task in tasks:
        if task not in done:
            future = pool.submit(work, task)
            if error := future.exception():
                failed[task] = error
            else:
                results[task] = future.result()
    return results, failed


@wrong(
    "07-finish",
    advice="has become.*who else uses",
    note="done looks like the place to collect in; it belongs to the caller.",
)
def adds_to_done(work, tasks, pool, done):
    return collect(submit_all(work, tasks, pool, done), done)


@wrong(
    "07-finish",
    advice="who closes it",
    note="`with pool:` waits for the tasks, and then nobody can use the pool again.",
)
def closes_the_pool(work, tasks, pool, done):
    with pool:
        return collect(submit_all(work, tasks, pool, done), dict(done))


def collect(futures, results):
    failed = {}
    for task, future in futures.items():
        if future.exception():
            failed[task] = future.exception()
        else:
            results[task] = future.result()
    return results, failed


def submit_all(work, tasks, pool, done):
    return {task: pool.submit(work, task) for task in tasks if task not in done}


@wrong(
    "07-finish",
    advice="the old ones and the new ones",
    note="The results begin with an empty dictionary, and what was saved is lost.",
)
def forgets_the_old_results(work, tasks, pool, done):
    return collect(submit_all(work, tasks, pool, done), {})


@wrong(
    "07-finish",
    advice="8, 9, 10 .* come after one that failed",
    note="One try around the whole loop: the first exception ends it.",
)
def stops_at_the_first(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task, future in submit_all(work, tasks, pool, done).items():
        try:
            results[task] = future.result()
        except Exception as error:
            failed[task] = error
            break
    return results, failed
