"""Checks of the exercises of lesson 07, Parallel work in practice."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from threading import Lock
from time import sleep

from demos.practice.pendulum_survey import period, survey
from sidebyside.exercises import NotYet, TooSlow, exercise, expect


class PackingPool(ThreadPoolExecutor):
    """Threads that get their tasks packed, as processes do; it counts them."""

    def __init__(self, late: bool = False):
        super().__init__(max_workers=4)
        self.lock, self.late = Lock(), late
        self.called: dict[str, int] = {}  # name of the function -> tasks
        self.waiting = self.most_waiting = 0
        self.chunk = 1  # tasks

    def __repr__(self):
        return "a pool"

    def map(self, fn, *iterables, timeout=None, chunksize=1):
        self.chunk = max(self.chunk, chunksize)
        return super().map(fn, *map(list, iterables), timeout=timeout)

    def submit(self, fn, /, *args, **kwargs):
        packed = _packed((fn, args, kwargs))
        name = getattr(fn, "__name__", type(fn).__name__)
        with self.lock:
            self.called[name] = self.called.get(name, 0) + 1
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
            number = self.called[name]
        future = super().submit(self._unpack_and_call, packed, number)
        future.add_done_callback(self._note_end)
        return future

    def _note_end(self, future) -> None:
        with self.lock:
            self.waiting -= 1

    def _unpack_and_call(self, packed: bytes, number: int):
        fn, args, kwargs = pickle.loads(packed)
        if self.late and number <= 3:
            sleep(0.15 / number)  # the first tasks arrive last
        return fn(*args, **kwargs)


def _packed(call: tuple) -> bytes:
    try:
        return pickle.dumps(call)
    except Exception as error:
        raise NotYet(
            "pool.submit or pool.map with your function",
            f"{type(error).__name__}: it cannot be packed",
            "a worker looks a function up by its name in a file: can it find this one, "
            "and everything that is sent with it?",
        ) from None


# For 30 pendulums, another order of adding is often not seen in the mean. Here it is.
ORDER_MATTERS = (5, 10, 13, 25, 29)


@exercise("07-identical", seconds=20)
def check_identical(survey_in):
    for seed, count in [(1, 1), (2, 12), *((seed, 30) for seed in ORDER_MATTERS)]:
        tried = f"survey_in(pool, {seed}, {count})"
        expected = survey(seed, count)
        with PackingPool(late=True) as pool:
            got = survey_in(pool, seed, count)
        tasks = sum(pool.called.values())
        expect(isinstance(got, Real), tried, got, "it should return one number")
        if got != expected:
            expect(
                count == 1 or not math.isclose(got, count * expected),
                tried,
                f"{got!r}, and survey({seed}, {count}) is {expected!r}",
                f"{count} times as much: what does survey do after adding",
            )
            close = abs(got - expected) < 1e-9
            expect(
                False,
                tried,
                f"{got!r}, and survey({seed}, {count}) is {expected!r}",
                "nearly: the same numbers, but not added in the same order, or not by "
                "the same sum"
                if close
                else "the numbers are others: does each pendulum get the two random "
                "numbers that it got in survey, in that order",
            )
        if tasks < count:
            raise TooSlow(
                tried,
                f"{tasks} tasks went to the pool, for {count} pendulums",
                "the right number, but who computes the periods?",
            )
        expect(
            pool.called.get(period.__name__, 0) == count,
            tried,
            f"the pool was given {pool.called}",
            "each period is computed once, by the function period",
        )
        if count > 1 and pool.most_waiting == 1:
            raise TooSlow(
                tried,
                "never more than one task in the pool",
                "what do you wait for before the next pendulum is handed in?",
            )
        if count >= 30 and pool.chunk >= count:
            raise TooSlow(
                tried,
                f"all {count} pendulums in one chunk",
                "how many workers have something to do then?",
            )


CAUSES = {
    "words": (
        1,
        "how long does counting four words take, and how long a message",
    ),
    "images": (4, "how many bytes go there and back for a few milliseconds of work"),
    "search": (5, "look at the list of its tasks: when would the last worker be done"),
}


@exercise("07-bottlenecks")
def check_bottlenecks(bottlenecks):
    expect(
        isinstance(bottlenecks, dict),
        "bottlenecks",
        bottlenecks,
        'a dictionary is written {"words": 2, "images": 2, "search": 2}',
    )
    expect(
        set(bottlenecks) == set(CAUSES),
        f"the keys {', '.join(map(str, bottlenecks))}",
        "not the names of the three programs",
        f"the keys are {', '.join(CAUSES)}",
    )
    numbers = list(bottlenecks.values())
    expect(
        all(type(number) is int and 1 <= number <= 6 for number in numbers),
        "the values of bottlenecks",
        numbers,
        "each is the number of a question of the checklist, from 1 to 6",
    )
    wrong = [name for name, (cause, _) in CAUSES.items() if bottlenecks[name] != cause]
    expect(
        not wrong,
        "your three diagnoses",
        f"{3 - len(wrong)} of them are right",
        f'look at "{wrong[0]}" again: {CAUSES[wrong[0]][1]}' if wrong else "",
    )


class Work:
    """The check's work: takes a moment, fails where it is told to, notes its calls."""

    def start(self, bad: dict) -> None:
        self.bad, self.calls = bad, []

    def __call__(self, task):
        self.calls.append(task)
        sleep(0.02)
        if task in self.bad:
            raise self.bad[task]
        return task % 5  # some results are 0

    def __reduce__(self) -> str:
        return "work"  # packed by its name, as functions are


work = Work()


@exercise("07-finish", seconds=15)
def check_finish(run_all):
    error = ValueError("bad data")
    cases = [
        ([1, 2, 3, 4, 5, 6, 7, 8], {}, {}),
        ([5, 6, 7, 8, 9, 10], {}, {7: error}),
        ([1, 2, 3, 4, 5, 6], {2: 0, 5: 50}, {}),  # a saved result may well be 0
        ([3, 1, 2, 9, 8, 7], {1: 10, 9: 40}, {3: error, 8: KeyError("x")}),
        ([1, 2], {1: 10, 2: 20}, {}),
        ([], {}, {}),
    ]
    for tasks, done, bad in cases:
        _try_finish(run_all, tasks, done, bad)


def _try_finish(run_all, tasks: list, done: dict, bad: dict) -> None:
    work.start(bad)
    given = dict(done)
    tried = f"run_all(work, {tasks}, pool, {done})"
    if bad:
        tried += f", where {' and '.join(map(str, bad))} fail{'s'[: len(bad) < 2]}"
    with PackingPool() as pool:
        try:
            got = run_all(work, list(tasks), pool, given)
        except tuple({type(error) for error in bad.values()}) as error:
            expect(
                error not in bad.values(),
                tried,
                f"{type(error).__name__}: {error}",
                "one task's exception stops no other task: who should catch it?",
            )
            raise
        sent, together = sum(pool.called.values()), pool.most_waiting
        try:
            pool.submit(abs, 0)
        except RuntimeError:
            expect(False, tried, "a closed pool", "whose pool is it, who closes it?")
    expect(given == done, tried, f"done became {given}", "done itself stays as it is")
    pair = isinstance(got, tuple | list) and len(got) == 2
    expect(
        pair and all(isinstance(part, dict) for part in got),
        tried,
        got,
        "two dictionaries should come back: results, failed",
    )
    results, failed = got
    again = sorted(set(work.calls) & set(done))
    expect(
        not again,
        tried,
        f"{again} computed again",
        "what do you know from done already?",
    )
    expect(
        len(work.calls) == len(set(work.calls)),
        tried,
        f"work was called for {sorted(work.calls)}",
        "each task is computed once",
    )
    expect(
        set(failed) == set(bad) and all(failed[t] is bad[t] for t in bad),
        tried,
        f"failed is {failed}",
        "failed has each task that raised, with its exception, and no other",
    )
    new = {task: task % 5 for task in tasks if task not in done and task not in bad}
    expect(
        results == done | new,
        tried,
        f"results are {results}",
        "results has the old ones and the new ones, of every task that did not raise",
    )
    if sent < len(work.calls):
        raise TooSlow(
            tried,
            f"{sent} tasks went to the pool",
            "the right results, but who computed them?",
        )
    if len(new) > 5 and together < 3:
        raise TooSlow(
            tried,
            f"never more than {together} at the same time, with four workers",
            "how many tasks are in the pool when you ask for the first result?",
        )
