"""Answers to the exercises of lesson 07 that people give, and that are not right."""

import math
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from functools import partial
from types import MappingProxyType

import numpy as np

from demos.practice.pendulum_survey import period, survey
from lessons.source.sample_answers import right, wrong

# 07-bottlenecks


class EqualToAnything(int):
    """A number that no comparison tells from another one."""

    __hash__ = int.__hash__

    def __eq__(self, other):
        return True


# 07-identical


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
    advice="two random numbers .* in that order",
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


@wrong("07-identical", advice="the periods alone")
def forgets_the_clocks(pool, seed, count):
    angles, _ = draw(seed, count)
    return added(pool.map(period, angles)) / count


@wrong(
    "07-identical",
    advice="one after the other",
    note="NumPy adds in pairs of halves; it is even a little more precise.",
)
def takes_the_mean_of_an_array(pool, seed, count):
    angles, clocks = draw(seed, count)
    return float(np.mean(np.array(list(pool.map(period, angles))) * clocks))


@wrong("07-identical", advice="after adding")
def forgets_to_divide(pool, seed, count):
    angles, clocks = draw(seed, count)
    return added(p * c for p, c in zip(pool.map(period, angles), clocks, strict=True))


@wrong("07-identical", advice="numbers behind the mean")
def returns_nothing_yet(pool, seed, count):
    return 0


@wrong(
    "07-identical",
    advice="how many workers",
    note="One chunk is one task: one worker does it all.",
    state="TOO SLOW",
)
def sends_one_chunk(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles, chunksize=1000)
    return added(p * c for p, c in zip(periods, clocks, strict=True)) / count


@wrong("07-identical", advice="who computes each period", state="TOO SLOW")
def calls_the_serial_one(pool, seed, count):
    return survey(seed, count)


@wrong(
    "07-identical",
    advice="never more than one",
    note="A pool, and one task at a time in it.",
    state="TOO SLOW",
)
def waits_for_each(pool, seed, count):
    angles, clocks = draw(seed, count)
    pairs = zip(angles, clocks, strict=True)
    return added(pool.submit(period, a).result() * c for a, c in pairs) / count


@wrong(
    "07-identical", advice="by its name", note="Works with threads, not with processes."
)
def sends_a_lambda(pool, seed, count):
    angles, clocks = draw(seed, count)
    return added(pool.map(lambda a, c: period(a) * c, angles, clocks)) / count


@wrong("07-identical", advice="each period, once")
def sends_the_whole_survey(pool, seed, count):
    return pool.submit(survey, seed, count).result()


@wrong("07-identical", advice="one after the other")
def adds_exactly(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    return math.fsum(p * c for p, c in zip(periods, clocks, strict=True)) / count


@wrong("07-identical", advice="never more than one", state="TOO SLOW")
def polls_the_only_one(pool, seed, count):
    angles, clocks = draw(seed, count)
    total = 0
    for angle, clock in zip(angles, clocks, strict=True):
        future = pool.submit(period, angle)
        while not future.done():
            pass
        total += future.result() * clock
    return total / count


@wrong("07-identical", advice="each period, once")
def computes_all_twice(pool, seed, count):
    list(pool.map(period, draw(seed, count)[0]))
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    return added(p * c for p, c in zip(periods, clocks, strict=True)) / count


@wrong("07-identical", advice="which periods the mean is made of", state="TOO SLOW")
def throws_the_periods_away(pool, seed, count):
    list(pool.map(period, draw(seed, count)[0]))
    return survey(seed, count)


_means = {}


@wrong(
    "07-identical",
    advice="keeps from its earlier calls",
    note="Another count with the same seed gets the old mean.",
)
def remembers_by_seed(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    mean = added(p * c for p, c in zip(periods, clocks, strict=True)) / count
    return _means.setdefault(seed, mean)


remembers_by_seed.__module__ = "__main__"  # as if defined in a notebook


@wrong(
    "07-identical",
    advice="the sum divided once",
    note="1 / count is rounded, too: two roundings instead of one.",
)
def multiplies_by_the_reciprocal(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    return added(p * c for p, c in zip(periods, clocks, strict=True)) * (1 / count)


@wrong("07-identical", advice="nothing rounded")
def rounds_the_mean(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    mean = added(p * c for p, c in zip(periods, clocks, strict=True)) / count
    return round(mean, 12)


@wrong(
    "07-identical",
    advice="in the pool: 48; .* who computes each period",
    note="48 tasks are the lesson's example, not a limit.",
    state="TOO SLOW",
)
def computes_the_rest_here(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = [*pool.map(period, angles[:48]), *map(period, angles[48:])]
    return added(p * c for p, c in zip(periods, clocks, strict=True)) / count


@right("07-identical")
def sends_lists_of_periods(pool, seed, count):
    angles, clocks = draw(seed, count)
    starts = range(0, count, 3)
    futures = [pool.submit(list, map(period, angles[n : n + 3])) for n in starts]
    found = [seconds for future in futures for seconds in future.result()]
    return added(p * c for p, c in zip(found, clocks, strict=True)) / count


@right("07-identical")
def keeps_a_few_in_the_pool(pool, seed, count):
    """Never more than six at once; whichever is done makes room for the next."""
    angles, clocks = draw(seed, count)
    found, waiting = [0.0] * count, {}
    for place, angle in enumerate(angles):
        if len(waiting) == 6:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                number = waiting.pop(future)
                found[number] = future.result() * clocks[number]
        waiting[pool.submit(period, angle)] = place
    for future in as_completed(waiting):
        found[waiting[future]] = future.result() * clocks[waiting[future]]
    return added(found) / count


@right("07-identical")
def waits_for_pairs(pool, seed, count):
    angles, clocks = draw(seed, count)
    found = []
    for start in range(0, count, 2):
        futures = [pool.submit(period, angle) for angle in angles[start : start + 2]]
        wait(futures)
        found += [future.result() for future in futures]
    return added(p * c for p, c in zip(found, clocks, strict=True)) / count


@right("07-identical")
def collects_by_callbacks(pool, seed, count):
    angles, clocks = draw(seed, count)
    found = {}
    futures = [pool.submit(period, angle) for angle in angles]
    for place, future in enumerate(futures):
        future.add_done_callback(
            lambda f, place=place: found.update({place: f.result()})
        )
    pool.shutdown()
    return np.float64(added(found[n] * clocks[n] for n in range(count)) / count)


@right("07-identical")
def sends_partials(pool, seed, count):
    angles, clocks = draw(seed, count)
    futures = [pool.submit(partial(period, angle)) for angle in angles]
    found = [future.result() for future in futures]
    return added(p * c for p, c in zip(found, clocks, strict=True)) / count


# 07-finish


@wrong("07-finish", advice="from done already", note="A saved None is a result too.")
def takes_none_for_missing(work, tasks, pool, done):
    missing = [task for task in tasks if done.get(task) is None]
    return collect(submit_all(work, missing, pool, {}), dict(done))


@wrong("07-finish", advice="did not raise")
def drops_results_of_none(work, tasks, pool, done):
    results, failed = collect(submit_all(work, tasks, pool, done), dict(done))
    return {t: r for t, r in results.items() if r is not None}, failed


@wrong("07-finish", advice="who else uses")
def empties_the_tasks(work, tasks, pool, done):
    futures = {}
    while tasks:
        if (task := tasks.pop(0)) not in done:
            futures[task] = pool.submit(work, task)
    return collect(futures, dict(done))


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


@right("07-finish")
def two_at_a_time(work, tasks, pool, done):
    missing = [task for task in tasks if task not in done]
    results, failed = dict(done), {}
    for first in range(0, len(missing), 2):
        futures = submit_all(work, missing[first : first + 2], pool, {})
        results, more = collect(futures, results)
        failed |= more
    return results, failed


@wrong("07-finish", advice="stops no other|from done already")
def maps_and_fails(work, tasks, pool, done):
    return dict(zip(tasks, pool.map(work, tasks), strict=True)), {}


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
    note="submit and result in one loop: a pool that works alone.",
    state="TOO SLOW",
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
    advice="from done already",
    note="`if not done.get(task)`: a saved 0 is a result too.",
)
def computes_saved_zeros_again(work, tasks, pool, done):
    missing = {task: None for task in tasks if not done.get(task)}
    return collect(submit_all(work, missing, pool, {}), dict(done))


@wrong("07-finish", advice="who computed them", state="TOO SLOW")
def opens_a_pool_of_its_own(work, tasks, pool, done):
    with ThreadPoolExecutor(8) as own:
        return collect(submit_all(work, tasks, own, done), dict(done))


@wrong(
    "07-finish", advice="by its name", note="Works with threads, not with processes."
)
def sends_a_function_of_a_function(work, tasks, pool, done):
    def safe(task):
        try:
            return work(task), None
        except Exception as error:
            return None, error

    missing = [task for task in tasks if task not in done]
    found = dict(zip(missing, pool.map(safe, missing), strict=True))
    good = {task: result for task, (result, error) in found.items() if error is None}
    return done | good, {task: error for task, (_, error) in found.items() if error}


@wrong("07-finish", advice="has become.*who else uses")
def adds_to_done(work, tasks, pool, done):
    return collect(submit_all(work, tasks, pool, done), done)


@wrong("07-finish", advice="who closes it")
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
    advice="every task that did not raise",
    note="A result of 0 is a result.",
)
def takes_zero_for_nothing(work, tasks, pool, done):
    futures, results, failed = submit_all(work, tasks, pool, done), dict(done), {}
    for task, future in futures.items():
        if future.exception():
            failed[task] = future.exception()
        elif future.result():
            results[task] = future.result()
    return results, failed


@wrong(
    "07-finish",
    advice="each task that raised",
    note="A function may return an exception: only what is raised has failed.",
)
def tells_by_the_type(work, tasks, pool, done):
    futures = {t: pool.submit(work, t) for t in tasks if t not in done}
    answers = {t: f.exception() or f.result() for t, f in futures.items()}
    failed = {t: a for t, a in answers.items() if isinstance(a, Exception)}
    return {**done, **{t: a for t, a in answers.items() if t not in failed}}, failed


@wrong(
    "07-finish",
    advice="each task that raised",
    note="The task itself may raise TimeoutError.",
)
def takes_every_timeout_for_its_own(work, tasks, pool, done):
    futures = {t: pool.submit(work, t) for t in tasks if t not in done}
    results, failed = dict(done), {}
    for task, future in futures.items():
        try:
            results[task] = future.result(timeout=3600)
        except TimeoutError:
            continue  # nobody waits for more than an hour
        except Exception as error:
            failed[task] = error
    return results, failed


@wrong("07-finish", advice="the old ones and the new ones")
def forgets_the_old_results(work, tasks, pool, done):
    return collect(submit_all(work, tasks, pool, done), {})


@wrong(
    "07-finish",
    advice="with its exception",
    note="A message has no type: nobody can decide later what to repeat.",
)
def keeps_messages_instead_of_exceptions(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task, future in submit_all(work, tasks, pool, done).items():
        try:
            results[task] = future.result()
        except Exception as error:
            failed[task] = str(error)
    return results, failed


@wrong("07-finish", advice="in neither dictionary: 8, 9, 10")
def stops_at_the_first(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task, future in submit_all(work, tasks, pool, done).items():
        try:
            results[task] = future.result()
        except Exception as error:
            failed[task] = error
            break
    return results, failed


@wrong("07-finish", advice="may stop")
def cancels_the_others(work, tasks, pool, done):
    results, failed = dict(done), {}
    futures = submit_all(work, tasks, pool, done)
    for task, future in futures.items():
        try:
            results[task] = future.result()
        except CancelledError:
            continue
        except Exception as error:
            failed[task] = error
            for other in futures.values():
                other.cancel()
    return results, failed


@wrong(
    "07-finish",
    advice="tasks that were cancelled",
    note="After its first exception, what `map` returns has ended.",
)
def asks_the_iterator_again(work, tasks, pool, done):
    results, failed = dict(done), {}
    missing = [task for task in tasks if task not in done]
    outcomes = pool.map(work, missing)
    for task in missing:
        try:
            results[task] = next(outcomes)
        except StopIteration:
            break
        except Exception as error:
            failed[task] = error
    return results, failed


@wrong(
    "07-finish",
    advice="what becomes of each task",
    note="Bad luck comes in rows: one bad file, and all that are like it.",
)
def gives_up_after_five(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task, future in submit_all(work, tasks, pool, done).items():
        try:
            results[task] = future.result()
        except Exception as error:
            failed[task] = error
            if len(failed) == 5:
                break
    return results, failed


@wrong(
    "07-finish",
    advice="who waits until it has ended",
    note="No limit was asked for. A task of a night would be lost.",
)
def waits_for_a_second(work, tasks, pool, done):
    futures = submit_all(work, tasks, pool, done)
    ended = wait(futures.values(), timeout=1).done
    return collect({t: f for t, f in futures.items() if f in ended}, dict(done))


@wrong("07-finish", advice="each task that raised")
def swallows_failures(work, tasks, pool, done):
    results = dict(done)
    for task, future in submit_all(work, tasks, pool, done).items():
        if future.exception() is None:
            results[task] = future.result()
    return results, {}


@wrong("07-finish", advice="two dictionaries")
def returns_results_only(work, tasks, pool, done):
    return forgets_the_old_results(work, tasks, pool, done)[0]


@wrong("07-finish", advice="who waits until it has ended|did not raise")
def asks_futures_that_are_not_done(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task, future in submit_all(work, tasks, pool, done).items():
        if future.done():
            results[task] = future.result()
    return results, failed


@wrong("07-identical", advice="the numbers behind")
def takes_seed_zero_for_none(pool, seed, count):
    dice = np.random.default_rng(seed or None)
    drawn = [(dice.uniform(0.1, 3.1), dice.uniform(0.9, 1.1)) for _ in range(count)]
    total = 0.0
    periods = pool.map(period, [angle for angle, _ in drawn])
    for seconds, (_, clock) in zip(periods, drawn, strict=True):
        total += seconds * clock
    return total / count


@wrong(
    "07-finish",
    advice="the moment at which you return",
    note="Callbacks file each result, but nobody waits for them.",
)
def files_when_it_is_done(work, tasks, pool, done):
    results, failed = dict(done), {}

    def file(task, future):
        error = future.exception()
        if error is None:
            results[task] = future.result()
        else:
            failed[task] = error

    for task in tasks:
        if task not in done:
            pool.submit(work, task).add_done_callback(partial(file, task))
    return results, failed


wrong("07-bottlenecks", advice='"images" again', name="everything_is_a_message")(
    {"words": 1, "images": 1, "search": 1}
)
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
wrong("07-bottlenecks", advice="from 1 to 6", name="words_for_numbers")(
    {"words": "message", "images": "sent", "search": "longest"}
)
wrong("07-bottlenecks", advice="of type list.* is a dictionary", name="a_list")(
    [1, 4, 5]
)
wrong("07-bottlenecks", advice="names of the three programs", name="one_is_missing")(
    {"words": 1, "images": 4}
)
wrong(
    "07-bottlenecks",
    advice='"words" again',
    note="Nobody does this by mistake: it is for those who try the check.",
    name="says_yes_to_every_number",
)(dict.fromkeys(["words", "images", "search"], EqualToAnything(3)))
right("07-bottlenecks", name="numpy_numbers")(
    {"words": np.int64(1), "images": 4, "search": 5}
)
right("07-bottlenecks", name="in_another_order")({"search": 5, "images": 4, "words": 1})
right("07-bottlenecks", name="whole_floats")(
    {"words": 1.0, "images": np.float64(4), "search": np.array(5.0)}
)
right("07-bottlenecks", name="read_only_with_another")(
    MappingProxyType({"ask": 2, "words": 1, "images": 4, "search": 5})
)
