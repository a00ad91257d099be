"""Checks of the exercises of lesson 07, Parallel work in practice."""

import contextlib
import io
import math
import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from numbers import Real
from threading import Event, Lock, current_thread
from time import sleep

import numpy as np

from demos.practice.pendulum_survey import period, survey
from sidebyside.exercises import NotYet, exercise, trying
from sidebyside.expectations import Attempts
from sidebyside.findings import shown

WAITS_TOO_EARLY = "how many tasks are in the pool while you wait for the first of them"
LAST_DIGITS = "the last digits: are the same products added one after the other, in "
LAST_DIGITS += "the same order, the sum divided once and nothing rounded, as in "
LAST_DIGITS += "survey? (From Python 3.12, sum() adds in another way.)"


class PackingPool(ThreadPoolExecutor):
    """Threads that get their tasks packed, as processes do.

    It notes what it is given, how much of it before its owner asks for the first
    result, and how many pendulums' periods are computed in it, whatever calls `period`.
    With `overtaken`, the first task ends after two others, unless it is asked for its
    result: what comes in then comes in another order, on any machine. With `instead`,
    a period is replaced by another number, to tell who uses it, and how.
    """

    def __init__(self, overtaken: bool = False, instead: Mapping | None = None):
        super().__init__(max_workers=4)
        self.instead = instead or {}
        self.lock, self.owner = Lock(), current_thread()
        self.called: dict[str, int] = {}  # name of the function -> tasks
        self.tasks, self.periods, self.together = 0, 0, None
        self.chunk = 1  # tasks
        self.gave_up = (
            False  # has a task been cancelled whose result was not asked for?
        )
        self.first_may_end = Event()
        self.others_ended = 0
        if not overtaken:
            self.first_may_end.set()

    def __repr__(self):
        return "a pool"

    def map(self, fn, *iterables, chunksize=1, **options):
        self.chunk = max(self.chunk, chunksize)
        return super().map(fn, *iterables, **options)

    def submit(self, fn, /, *args, **kwargs):
        packed = _packed_for_pool((fn, args, kwargs))
        called = fn.func if isinstance(fn, partial) else fn
        name = getattr(called, "__name__", type(called).__name__)
        with self.lock:
            self.called[name] = self.called.get(name, 0) + 1
            self.tasks += 1
            first = self.tasks == 1
        future = super().submit(self._unpack_and_call, packed, first)
        if not first:
            future.add_done_callback(self._count_other)
        for name in "result", "exception", "done":
            setattr(future, name, self._asking(future, name, first))
        future.cancel = self._cancelling(future)
        return future

    def period(self, angle: float) -> float:
        """What a task has for `period`."""
        seconds = period(angle)
        with self.lock:
            self.periods += 1
        return self.instead[seconds] if self.instead else seconds

    def shutdown(self, *args, **kwargs):
        self.first_may_end.set()
        super().shutdown(*args, **kwargs)

    def _unpack_and_call(self, packed: bytes, first: bool):
        fn, args, kwargs = _TaskUnpickler(packed, self.period).load()
        try:
            return fn(*args, **kwargs)
        finally:
            if first:  # for one who waits for pairs, the second one never comes
                self.first_may_end.wait(timeout=0.5)

    def _count_other(self, _: Future) -> None:
        with self.lock:
            self.others_ended += 1
            if self.others_ended == 2:
                self.first_may_end.set()

    def _asking(self, future: Future, name: str, first: bool):
        ask = getattr(future, name)

        def asked(*args, **kwargs):
            if self.together is None and current_thread() is self.owner:
                self.together = self.tasks
            found = ask() if name == "done" else None
            future.asked = name != "done"
            if first:
                self.first_may_end.set()
            return found if name == "done" else ask(*args, **kwargs)

        return asked

    def _cancelling(self, future: Future):
        """Whether the task has ended by then is luck, on a busy machine above all."""
        future.asked, cancel = False, future.cancel

        def cancelled() -> bool:
            self.gave_up = self.gave_up or not future.asked
            return cancel()

        return cancelled


def _packed_for_pool(call: tuple) -> bytes:
    try:
        return pickle.dumps(call)
    except Exception as error:
        raise NotYet(
            "pool.submit or pool.map with your function",
            f"{type(error).__name__}: it cannot be packed",
            "whether a worker, which looks a function up by its name in a file, can "
            "find this one, and everything that is sent with it",
        ) from None


class _TaskUnpickler(pickle.Unpickler):
    """Unpacks a task, with another function in place of `period`."""

    def __init__(self, packed: bytes, instead: Callable):
        super().__init__(io.BytesIO(packed))
        self.instead = instead

    def find_class(self, module: str, name: str):
        found = super().find_class(module, name)
        return self.instead if found is period else found


# 07-identical -------------------------------------------------------------------------


@exercise("07-identical", seconds=20, when_hung=WAITS_TOO_EARLY)
def check_07_identical(survey_in):
    attempt = Attempts(survey_in, certain=LAST_DIGITS)
    for seed, count in (1, 1), (2, 12), (1, 3), (2, 7), (0, 5), (5, 30), (3, 120):
        attempt(_try_survey, seed, count)
    attempt(_try_other_periods, 4, 30)


def _try_survey(survey_in, seed: int, count: int) -> None:
    with trying(f"survey_in(pool, {seed}, {count})") as expect:
        with PackingPool(overtaken=count > 1) as pool:
            got = survey_in(pool, seed, count)
        expect(isinstance(got, Real), got=got, think="what is returned: one number")
        _expect_identical(expect, got, seed, count)
        _expect_periods_in_pool(expect, pool, count)


def _expect_identical(expect, got: float, seed: int, count: int) -> None:
    right = survey(seed, count)
    if got == right:
        return
    periods = [period(angle) for angle, _ in _draw(seed, count)]
    think = "the numbers behind the mean: which two random numbers does each pendulum "
    think += "get in survey, in that order, and what becomes of them"
    if abs(got - right) < 1e-9:
        think = LAST_DIGITS
    elif count > 1 and math.isclose(got, count * right):
        think = f"{count} times as much: what does survey do after adding"
    elif math.isclose(got, sum(periods) / count):
        think = "the mean of the periods alone: what does survey do with each period"
    got = f"{got!r}, and survey({seed}, {count}) is {right!r}"
    expect(False, got=got, think=think)


def _try_other_periods(survey_in, seed: int, count: int) -> None:
    """Two periods of each three are replaced, so that another order of adding is seen.

    With the true ones, rounding often hides it. The new ones cancel each other, and are
    so large that the digits of the sum are lost before: those of what was added so far.
    """
    total, instead = 0.0, {}
    for number, (angle, clock) in enumerate(_draw(seed, count)):
        value = seconds = period(angle)
        if number % 3:
            size = 2.0 ** (45 - 4 * (number // 3)) / clock
            value = size if number % 3 == 1 else -size
        instead[seconds] = value
        total += value * clock
    tried = f"survey_in(pool, {seed}, {count}), with other periods from the pool"
    with trying(f"{tried}, large and small, of both signs") as expect:
        with PackingPool(overtaken=True, instead=instead) as pool:
            got = survey_in(pool, seed, count)
        used = not math.isclose(got, survey(seed, count))
        expect.quick(
            used,
            got=f"{got!r}, as if they had not been used",
            think="which periods the mean is made of: those that the pool returns",
        )
        expect(
            got == total / count,
            got=f"{got!r}, and not {total / count!r}",
            think=LAST_DIGITS,
        )


def _draw(seed: int, count: int) -> list[tuple[float, float]]:
    """Angle and clock of each pendulum, as `survey` draws them."""
    dice = np.random.default_rng(seed)
    return [(dice.uniform(0.1, 3.1), dice.uniform(0.9, 1.1)) for _ in range(count)]


def _expect_periods_in_pool(expect, pool: PackingPool, count: int) -> None:
    what_for = "what the pool is for: each period, once, by the function period"
    expect(
        pool.periods or not pool.tasks,
        got=f"the pool was given {pool.called}",
        think=what_for,
    )
    told = f"periods computed in the pool: {pool.periods}; pendulums: {count}"
    expect.quick(
        pool.periods >= count,
        got=told,
        think="who computes each period? The number is right",
    )
    expect(pool.periods == count, got=told, think=what_for)
    expect.quick(
        pool.tasks == 1 or pool.together != 1,
        got="never more than one task in the pool",
        think="what you wait for before you hand in the next pendulum",
    )
    expect.quick(
        count < 30 or (pool.tasks > 1 and pool.chunk < count),
        got=f"all {count} pendulums in one chunk",
        think="how many workers have something to do then",
    )


# 07-bottlenecks -----------------------------------------------------------------------

CAUSES = {
    "words": (1, "how long does counting four words take, and how long a message?"),
    "images": (4, "how many bytes go there and back for a few milliseconds of work?"),
    "search": (5, "when would the last worker be done with its list of tasks?"),
}


@exercise("07-bottlenecks")
def check_07_bottlenecks(bottlenecks):
    with trying("bottlenecks") as expect:
        expect(
            isinstance(bottlenecks, Mapping),
            got=f"of type {type(bottlenecks).__name__}: {shown(bottlenecks)}",
            think='the form: {"words": 2, "images": 2, "search": 2} is a dictionary',
        )
        expect(
            set(CAUSES) <= set(bottlenecks),
            got=f"the keys {', '.join(map(str, bottlenecks))}",
            think=f"the names of the three programs: {', '.join(CAUSES)}",
        )
        given = {name: bottlenecks[name] for name in CAUSES}
        numbers = {name: _as_whole_number(value) for name, value in given.items()}
        expect(
            all(1 <= number <= 6 for number in numbers.values()),
            got=list(given.values()),
            think="what each value is: the number of a question, from 1 to 6",
        )
        wrong = [name for name in CAUSES if numbers[name] != CAUSES[name][0]]
        expect(
            not wrong,
            got=f"{3 - len(wrong)} of them are right",
            think=f'"{wrong[0]}" again: {CAUSES[wrong[0]][1]}' if wrong else "",
        )


def _as_whole_number(value: object) -> int:
    """1 for 1.0 and for NumPy's, too; 0 for what is no whole number."""
    with contextlib.suppress(Exception):
        if not isinstance(value, bool | np.bool_) and int(value) == value:
            return int(value)
    return 0


# 07-finish ----------------------------------------------------------------------------

# A result may be nothing much, or an exception that is returned, not raised.
RESULTS = 0, None, "", 3, ValueError("nobody raised it"), 4.5


class WorkToFinish:
    """The check's work: takes a moment, fails where it is told to, notes its calls."""

    def start(self, bad: dict, slow: int | None) -> None:
        self.bad, self.slow, self.calls = bad, slow, []

    def __call__(self, task):
        self.calls.append(task)
        sleep(2.5 if task == self.slow else 0.01)  # not done at once
        if task in self.bad:
            raise self.bad[task]
        return RESULTS[task % len(RESULTS)]

    def __reduce__(self) -> str:
        return "work"  # packed by its name, as functions are


work = WorkToFinish()


@exercise("07-finish", seconds=15, when_hung=WAITS_TOO_EARLY)
def check_07_finish(run_all):
    error, stop = ValueError("bad data"), StopIteration()
    late = TimeoutError("raised by the task itself")
    for tasks, done, bad in [
        ([1, 2, 3, 4, 5, 6, 7, 8], {}, {}),
        ([5, 6, 7, 8, 9, 10], {}, {7: error}),
        ([1, 2, 3, 4, 5, 6], {2: 0, 5: None}, {}),  # a saved result may be nothing
        ([3, 1, 2, 9, 8, 7], {1: 10, 9: 40}, {3: error, 8: KeyError("x"), 7: stop}),
        ([4, 3, 2, 1], {}, {1: error, 2: error, 3: late, 4: error}),
        ([1, 2], {1: 10, 2: 20}, {}),
        ([], {}, {}),
        (list(range(40, 0, -1)), {7: 7}, dict.fromkeys((*range(1, 30, 4), 40), error)),
    ]:
        _try_finish(run_all, tasks, done, bad)
    _try_finish(run_all, [3, 1, 2, 4, 5, 6], {}, {}, slow=3)


def _try_finish(
    run_all, tasks: list, done: dict, bad: dict, slow: int | None = None
) -> None:
    work.start(bad, slow)
    tried = f"run_all(work, {tasks}, pool, {done})"
    if bad:
        tried += f", where {' and '.join(map(str, bad))} fail{'s'[: len(bad) < 2]}"
    if slow:
        tried += f", where {slow} takes 2.5 s"
    given = list(tasks), dict(done)
    with trying(tried, *given) as expect:
        with PackingPool(overtaken=len(tasks) - len(done) > 1) as pool:
            got = _what_run_all_returns(expect, run_all, given[0], pool, given[1])
            entries = [len(part) for part in got]
            sent = pool.tasks
            try:
                pool.submit(abs, 0)
            except RuntimeError:
                whose = "whose pool it is, and who closes it"
                expect(False, got="a closed pool", think=whose)
        expect(
            not pool.gave_up,
            got="tasks that were cancelled",
            think="what one task's exception may stop",
        )
        expect(
            entries == [len(part) for part in got],
            got=f"{entries[0]} results and {entries[1]} failed; there are more now",
            think="the moment at which you return: has every task ended by then? Who "
            "waits for it?",
        )
        _expect_finished(expect, *got, tasks, done, bad)
        _expect_to_finish_in_pool(expect, sent, pool.together)


def _what_run_all_returns(expect, run_all, tasks: list, pool: PackingPool, done: dict):
    try:
        got = run_all(work, tasks, pool, done)
    except tuple({type(error) for error in work.bad.values()}) as error:
        expect(
            error not in work.bad.values(),
            got=f"{type(error).__name__}: {error}",
            think="who should catch one task's exception, so that it stops no other",
        )
        raise
    _expect_two_dictionaries(expect, got)
    return got


def _expect_two_dictionaries(expect, got: object) -> None:
    pair = isinstance(got, tuple | list) and len(got) == 2
    expect(
        pair and all(isinstance(part, dict) for part in got),
        got=got,
        think="what comes back: two dictionaries, results and failed",
    )


def _expect_finished(expect, results: dict, failed: dict, tasks, done, bad) -> None:
    again = sorted(set(work.calls) & set(done))
    expect(
        not again,
        got=f"{again} computed again",
        think="what you know from done already",
    )
    expect(
        len(work.calls) == len(set(work.calls)),
        got=f"work was called for {sorted(work.calls)}",
        think="how often a task is computed: once",
    )
    new = [task for task in tasks if task not in done and task not in bad]
    found = {task: RESULTS[task % len(RESULTS)] for task in new}
    lost = [task for task in new if task not in results and task not in failed]
    expect(
        not any(found[task] for task in lost),  # of a lost 0 see below
        got=f"in neither dictionary: {', '.join(map(str, lost))}",
        think="what becomes of each task: who waits until it has ended, and under "
        "which task is its result kept?",
    )
    expect(
        set(failed) == set(bad) and all(failed[task] is bad[task] for task in bad),
        got=f"failed is {failed}",
        think="what failed holds: each task that raised, with its exception, no other",
    )
    right = done | found
    think = "what results holds: the old ones and the new ones, of every task that did "
    think += "not raise"
    if set(results) == set(right):
        think = "whose result stands under each task: in which order do the tasks end?"
    expect(results == right, got=f"results are {results}", think=think)


def _expect_to_finish_in_pool(expect, sent: int, together: int | None) -> None:
    computed = len(work.calls)
    expect.quick(
        sent >= computed,
        got=f"{sent} tasks went to the pool",
        think="who computed them? The results are right",
    )
    expect.quick(
        computed < 5 or together is None or together > 1,
        got="one task in the pool when its result was asked for, with four workers",
        think="how many tasks are in the pool when you ask for the first result",
    )
