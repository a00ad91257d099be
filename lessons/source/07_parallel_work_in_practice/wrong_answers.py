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
from lessons.source.sample_answers import Right, Wrong

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


def draws_all_angles_first(pool, seed, count):
    dice = np.random.default_rng(seed)
    angles = [dice.uniform(0.1, 3.1) for _ in range(count)]
    clocks = [dice.uniform(0.9, 1.1) for _ in range(count)]
    return added(p * c for p, c in zip(pool.map(period, angles), clocks)) / count  # noqa: B905


def a_generator_for_each_task(pool, seed, count):
    dice = [np.random.default_rng(seed + n) for n in range(count)]
    periods = pool.map(period, [d.uniform(0.1, 3.1) for d in dice])
    found = [p * d.uniform(0.9, 1.1) for p, d in zip(periods, dice, strict=True)]
    return added(found) / count


def adds_in_order_of_arrival(pool, seed, count):
    angles, clocks = draw(seed, count)
    futures = {
        pool.submit(period, angle): clock
        for angle, clock in zip(angles, clocks, strict=True)
    }
    return added(f.result() * futures[f] for f in as_completed(futures)) / count


def forgets_the_clocks(pool, seed, count):
    angles, _ = draw(seed, count)
    return added(pool.map(period, angles)) / count


def takes_the_mean_of_an_array(pool, seed, count):
    angles, clocks = draw(seed, count)
    return float(np.mean(np.array(list(pool.map(period, angles))) * clocks))


def forgets_to_divide(pool, seed, count):
    angles, clocks = draw(seed, count)
    return added(p * c for p, c in zip(pool.map(period, angles), clocks, strict=True))


def returns_nothing_yet(pool, seed, count):
    return 0


def sends_one_chunk(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles, chunksize=1000)
    return added(p * c for p, c in zip(periods, clocks, strict=True)) / count


def calls_the_serial_one(pool, seed, count):
    return survey(seed, count)


def waits_for_each(pool, seed, count):
    angles, clocks = draw(seed, count)
    pairs = zip(angles, clocks, strict=True)
    return added(pool.submit(period, a).result() * c for a, c in pairs) / count


def sends_a_lambda(pool, seed, count):
    angles, clocks = draw(seed, count)
    return added(pool.map(lambda a, c: period(a) * c, angles, clocks)) / count


def sends_the_whole_survey(pool, seed, count):
    return pool.submit(survey, seed, count).result()


def adds_exactly(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    return math.fsum(p * c for p, c in zip(periods, clocks, strict=True)) / count


def polls_the_only_one(pool, seed, count):
    angles, clocks = draw(seed, count)
    total = 0
    for angle, clock in zip(angles, clocks, strict=True):
        future = pool.submit(period, angle)
        while not future.done():
            pass
        total += future.result() * clock
    return total / count


def computes_all_twice(pool, seed, count):
    list(pool.map(period, draw(seed, count)[0]))
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    return added(p * c for p, c in zip(periods, clocks, strict=True)) / count


def throws_the_periods_away(pool, seed, count):
    list(pool.map(period, draw(seed, count)[0]))
    return survey(seed, count)


_means = {}


def remembers_by_seed(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    mean = added(p * c for p, c in zip(periods, clocks, strict=True)) / count
    return _means.setdefault(seed, mean)


remembers_by_seed.__module__ = "__main__"  # as if defined in a notebook


def multiplies_by_the_reciprocal(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    return added(p * c for p, c in zip(periods, clocks, strict=True)) * (1 / count)


def rounds_the_mean(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = pool.map(period, angles)
    mean = added(p * c for p, c in zip(periods, clocks, strict=True)) / count
    return round(mean, 12)


def computes_the_rest_here(pool, seed, count):
    angles, clocks = draw(seed, count)
    periods = [*pool.map(period, angles[:48]), *map(period, angles[48:])]
    return added(p * c for p, c in zip(periods, clocks, strict=True)) / count


def sends_lists_of_periods(pool, seed, count):
    angles, clocks = draw(seed, count)
    starts = range(0, count, 3)
    futures = [pool.submit(list, map(period, angles[n : n + 3])) for n in starts]
    found = [seconds for future in futures for seconds in future.result()]
    return added(p * c for p, c in zip(found, clocks, strict=True)) / count


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


def waits_for_pairs(pool, seed, count):
    angles, clocks = draw(seed, count)
    found = []
    for start in range(0, count, 2):
        futures = [pool.submit(period, angle) for angle in angles[start : start + 2]]
        wait(futures)
        found += [future.result() for future in futures]
    return added(p * c for p, c in zip(found, clocks, strict=True)) / count


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


def sends_partials(pool, seed, count):
    angles, clocks = draw(seed, count)
    futures = [pool.submit(partial(period, angle)) for angle in angles]
    found = [future.result() for future in futures]
    return added(p * c for p, c in zip(found, clocks, strict=True)) / count


# 07-finish


def takes_none_for_missing(work, tasks, pool, done):
    missing = [task for task in tasks if done.get(task) is None]
    return collect(submit_all(work, missing, pool, {}), dict(done))


def drops_results_of_none(work, tasks, pool, done):
    results, failed = collect(submit_all(work, tasks, pool, done), dict(done))
    return {t: r for t, r in results.items() if r is not None}, failed


def empties_the_tasks(work, tasks, pool, done):
    futures = {}
    while tasks:
        if (task := tasks.pop(0)) not in done:
            futures[task] = pool.submit(work, task)
    return collect(futures, dict(done))


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


def two_at_a_time(work, tasks, pool, done):
    missing = [task for task in tasks if task not in done]
    results, failed = dict(done), {}
    for first in range(0, len(missing), 2):
        futures = submit_all(work, missing[first : first + 2], pool, {})
        results, more = collect(futures, results)
        failed |= more
    return results, failed


def maps_and_fails(work, tasks, pool, done):
    return dict(zip(tasks, pool.map(work, tasks), strict=True)), {}


def maps_what_is_missing(work, tasks, pool, done):
    missing = [task for task in tasks if task not in done]
    return done | dict(zip(missing, pool.map(work, missing), strict=True)), {}


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


def computes_saved_zeros_again(work, tasks, pool, done):
    missing = {task: None for task in tasks if not done.get(task)}
    return collect(submit_all(work, missing, pool, {}), dict(done))


def opens_a_pool_of_its_own(work, tasks, pool, done):
    with ThreadPoolExecutor(8) as own:
        return collect(submit_all(work, tasks, own, done), dict(done))


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


def adds_to_done(work, tasks, pool, done):
    return collect(submit_all(work, tasks, pool, done), done)


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


def takes_zero_for_nothing(work, tasks, pool, done):
    futures, results, failed = submit_all(work, tasks, pool, done), dict(done), {}
    for task, future in futures.items():
        if future.exception():
            failed[task] = future.exception()
        elif future.result():
            results[task] = future.result()
    return results, failed


def tells_by_the_type(work, tasks, pool, done):
    futures = {t: pool.submit(work, t) for t in tasks if t not in done}
    answers = {t: f.exception() or f.result() for t, f in futures.items()}
    failed = {t: a for t, a in answers.items() if isinstance(a, Exception)}
    return {**done, **{t: a for t, a in answers.items() if t not in failed}}, failed


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


def forgets_the_old_results(work, tasks, pool, done):
    return collect(submit_all(work, tasks, pool, done), {})


def keeps_messages_instead_of_exceptions(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task, future in submit_all(work, tasks, pool, done).items():
        try:
            results[task] = future.result()
        except Exception as error:
            failed[task] = str(error)
    return results, failed


def stops_at_the_first(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task, future in submit_all(work, tasks, pool, done).items():
        try:
            results[task] = future.result()
        except Exception as error:
            failed[task] = error
            break
    return results, failed


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


def waits_for_a_second(work, tasks, pool, done):
    futures = submit_all(work, tasks, pool, done)
    ended = wait(futures.values(), timeout=1).done
    return collect({t: f for t, f in futures.items() if f in ended}, dict(done))


def swallows_failures(work, tasks, pool, done):
    results = dict(done)
    for task, future in submit_all(work, tasks, pool, done).items():
        if future.exception() is None:
            results[task] = future.result()
    return results, {}


def returns_results_only(work, tasks, pool, done):
    return forgets_the_old_results(work, tasks, pool, done)[0]


def asks_futures_that_are_not_done(work, tasks, pool, done):
    results, failed = dict(done), {}
    for task, future in submit_all(work, tasks, pool, done).items():
        if future.done():
            results[task] = future.result()
    return results, failed


def takes_seed_zero_for_none(pool, seed, count):
    dice = np.random.default_rng(seed or None)
    drawn = [(dice.uniform(0.1, 3.1), dice.uniform(0.9, 1.1)) for _ in range(count)]
    total = 0.0
    periods = pool.map(period, [angle for angle, _ in drawn])
    for seconds, (_, clock) in zip(periods, drawn, strict=True):
        total += seconds * clock
    return total / count


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


WRONG = {
    "07-identical": [
        Wrong(
            "draws_all_angles_first",
            draws_all_angles_first,
            advice="two random numbers .* in that order",
            note="The most common one. Right for one pendulum, so it looks right.",
        ),
        Wrong(
            "a_generator_for_each_task",
            a_generator_for_each_task,
            advice="numbers behind the mean",
            note="Lesson 5's advice in a program that must keep its old numbers.",
        ),
        Wrong(
            "adds_in_order_of_arrival",
            adds_in_order_of_arrival,
            advice="one after the other, in the same order",
            note="Differs in the last digit, and not in every run.",
        ),
        Wrong(
            "takes_the_mean_of_an_array",
            takes_the_mean_of_an_array,
            advice="one after the other",
            note="NumPy adds in pairs of halves; it is even a little more precise.",
        ),
        Wrong("forgets_the_clocks", forgets_the_clocks, advice="the periods alone"),
        Wrong("forgets_to_divide", forgets_to_divide, advice="after adding"),
        Wrong(
            "returns_nothing_yet", returns_nothing_yet, advice="numbers behind the mean"
        ),
        Wrong(
            "sends_one_chunk",
            sends_one_chunk,
            state="TOO SLOW",
            advice="how many workers",
            note="One chunk is one task: one worker does it all.",
        ),
        Wrong(
            "calls_the_serial_one",
            calls_the_serial_one,
            state="TOO SLOW",
            advice="who computes each period",
        ),
        Wrong(
            "sends_the_whole_survey",
            sends_the_whole_survey,
            advice="each period, once",
        ),
        Wrong(
            "waits_for_each",
            waits_for_each,
            state="TOO SLOW",
            advice="never more than one",
            note="A pool, and one task at a time in it.",
        ),
        Wrong(
            "sends_a_lambda",
            sends_a_lambda,
            advice="by its name",
            note="Works with threads, not with processes.",
        ),
        Wrong("adds_exactly", adds_exactly, advice="one after the other"),
        Wrong(
            "polls_the_only_one",
            polls_the_only_one,
            state="TOO SLOW",
            advice="never more than one",
        ),
        Wrong("computes_all_twice", computes_all_twice, advice="each period, once"),
        Wrong(
            "throws_the_periods_away",
            throws_the_periods_away,
            state="TOO SLOW",
            advice="which periods the mean is made of",
        ),
        Wrong(
            "remembers_by_seed",
            remembers_by_seed,
            advice="keeps from its earlier calls",
            note="Another count with the same seed gets the old mean.",
        ),
        Wrong(
            "multiplies_by_the_reciprocal",
            multiplies_by_the_reciprocal,
            advice="the sum divided once",
            note="1 / count is rounded, too: two roundings instead of one.",
        ),
        Wrong("rounds_the_mean", rounds_the_mean, advice="nothing rounded"),
        Wrong(
            "computes_the_rest_here",
            computes_the_rest_here,
            state="TOO SLOW",
            advice="in the pool: 48; .* who computes each period",
            note="48 tasks are the lesson's example, not a limit.",
        ),
        Wrong(
            "takes_seed_zero_for_none", takes_seed_zero_for_none, "the numbers behind"
        ),
    ],
    "07-bottlenecks": [
        Wrong(
            "everything_is_a_message",
            {"words": 1, "images": 1, "search": 1},
            advice='"images" again',
        ),
        Wrong(
            "words_are_sent",
            {"words": 4, "images": 4, "search": 5},
            advice='"words" again',
            note="Packing is dear there too, but the first question comes first.",
        ),
        Wrong(
            "images_crowd_the_memory",
            {"words": 1, "images": 6, "search": 5},
            advice='"images" again',
            note="Large arrays: it is the pipe that is narrow here, before the memory.",
        ),
        Wrong(
            "search_has_short_tasks",
            {"words": 1, "images": 4, "search": 1},
            advice='"search" again',
            note="Most of its tasks are short; most of its time is one task.",
        ),
        Wrong(
            "words_for_numbers",
            {"words": "message", "images": "sent", "search": "longest"},
            advice="from 1 to 6",
        ),
        Wrong("a_list", [1, 4, 5], advice="of type list.* is a dictionary"),
        Wrong(
            "one_is_missing",
            {"words": 1, "images": 4},
            advice="names of the three programs",
        ),
        Wrong(
            "says_yes_to_every_number",
            dict.fromkeys(["words", "images", "search"], EqualToAnything(3)),
            '"words" again',
            note="Nobody does this by mistake: it is for those who try the check.",
        ),
    ],
    "07-finish": [
        Wrong(
            "maps_and_fails",
            maps_and_fails,
            advice="stops no other|from done already",
        ),
        Wrong(
            "maps_what_is_missing",
            maps_what_is_missing,
            advice="stops no other",
            note="map hands on the first exception, and the other results are lost.",
        ),
        Wrong(
            "waits_for_each_task",
            waits_for_each_task,
            state="TOO SLOW",
            advice="when you ask for the first result",
            note="submit and result in one loop: a pool that works alone.",
        ),
        Wrong(
            "computes_saved_zeros_again",
            computes_saved_zeros_again,
            advice="from done already",
            note="`if not done.get(task)`: a saved 0 is a result too.",
        ),
        Wrong(
            "opens_a_pool_of_its_own",
            opens_a_pool_of_its_own,
            state="TOO SLOW",
            advice="who computed them",
        ),
        Wrong(
            "sends_a_function_of_a_function",
            sends_a_function_of_a_function,
            advice="by its name",
            note="Works with threads, not with processes.",
        ),
        Wrong("adds_to_done", adds_to_done, advice="has become.*who else uses"),
        Wrong("closes_the_pool", closes_the_pool, advice="who closes it"),
        Wrong(
            "takes_zero_for_nothing",
            takes_zero_for_nothing,
            advice="every task that did not raise",
            note="A result of 0 is a result.",
        ),
        Wrong(
            "forgets_the_old_results",
            forgets_the_old_results,
            advice="the old ones and the new ones",
        ),
        Wrong(
            "keeps_messages_instead_of_exceptions",
            keeps_messages_instead_of_exceptions,
            advice="with its exception",
            note="A message has no type: nobody can decide later what to repeat.",
        ),
        Wrong(
            "stops_at_the_first",
            stops_at_the_first,
            advice="in neither dictionary: 8, 9, 10",
        ),
        Wrong(
            "gives_up_after_five",
            gives_up_after_five,
            advice="what becomes of each task",
            note="Bad luck comes in rows: one bad file, and all that are like it.",
        ),
        Wrong("cancels_the_others", cancels_the_others, advice="may stop"),
        Wrong(
            "asks_the_iterator_again",
            asks_the_iterator_again,
            advice="tasks that were cancelled",
            note="After its first exception, what `map` returns has ended.",
        ),
        Wrong("swallows_failures", swallows_failures, advice="each task that raised"),
        Wrong("returns_results_only", returns_results_only, advice="two dictionaries"),
        Wrong(
            "asks_futures_that_are_not_done",
            asks_futures_that_are_not_done,
            advice="who waits until it has ended|did not raise",
        ),
        Wrong(
            "takes_none_for_missing",
            takes_none_for_missing,
            advice="from done already",
            note="A saved None is a result too.",
        ),
        Wrong("drops_results_of_none", drops_results_of_none, advice="did not raise"),
        Wrong("empties_the_tasks", empties_the_tasks, advice="who else uses"),
        Wrong(
            "tells_by_the_type",
            tells_by_the_type,
            "each task that raised",
            note="A function may return an exception: only what is raised has failed.",
        ),
        Wrong(
            "takes_every_timeout_for_its_own",
            takes_every_timeout_for_its_own,
            "each task that raised",
            note="The task itself may raise TimeoutError.",
        ),
        Wrong(
            "files_when_it_is_done",
            files_when_it_is_done,
            "the moment at which you return",
            note="Callbacks file each result, but nobody waits for them.",
        ),
        Wrong(
            "waits_for_a_second",
            waits_for_a_second,
            advice="who waits until it has ended",
            note="No limit was asked for. A task of a night would be lost.",
        ),
    ],
}

RIGHT = {
    "07-identical": [
        Right("keeps_a_few_in_the_pool", keeps_a_few_in_the_pool),
        Right("waits_for_pairs", waits_for_pairs),
        Right("collects_by_callbacks", collects_by_callbacks),
        Right("sends_partials", sends_partials),
        Right("sends_lists_of_periods", sends_lists_of_periods),
    ],
    "07-bottlenecks": [
        Right("numpy_numbers", {"words": np.int64(1), "images": 4, "search": 5}),
        Right("in_another_order", {"search": 5, "images": 4, "words": 1}),
        Right(
            "whole_floats",
            {"words": 1.0, "images": np.float64(4), "search": np.array(5.0)},
        ),
        Right(
            "read_only_with_another",
            MappingProxyType({"ask": 2, "words": 1, "images": 4, "search": 5}),
        ),
    ],
    "07-finish": [
        Right("as_they_come", as_they_come),
        Right("four_at_a_time", four_at_a_time),
        Right("two_at_a_time", two_at_a_time),
    ],
}
