"""Checks of the exercises of lesson 07, Parallel work in practice."""

import math
import pickle
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Real
from threading import Event, Lock, current_thread
from time import sleep

from parallel_by_hand.practice.pendulum_survey import survey
from sidebyside.exercises.check import NotYet, exercise, trying
from sidebyside.exercises.findings import shown


class PackingPool(ThreadPoolExecutor):
    """Threads that get their tasks packed, as processes do.

    It counts its tasks, and those that it has when its owner asks for the first result.
    The first task ends after two others, unless it is asked for its result: what comes
    in then comes in another order, on any machine.
    """

    def __init__(self):
        super().__init__(max_workers=4)
        self.lock, self.owner = Lock(), current_thread()
        self.tasks, self.together = 0, None
        self.first_may_end = Event()
        self.others_ended = 0

    def __repr__(self):
        return "a pool"

    def submit(self, fn, /, *args, **kwargs):
        try:
            packed = pickle.dumps((fn, args, kwargs))
        except Exception as error:
            raise NotYet(
                "pool.submit or pool.map with your function",
                f"{type(error).__name__}: it cannot be packed",
                "whether a worker, which looks a function up by its name in a file, "
                "can find this one, and everything that is sent with it",
            ) from None
        with self.lock:
            self.tasks += 1
            first = self.tasks == 1
        future = super().submit(self._unpack_and_call, packed, first)
        if not first:
            future.add_done_callback(self._count_other)
        for name in "result", "exception":
            setattr(future, name, self._asking(future, name, first))
        return future

    def shutdown(self, *args, **kwargs):
        self.first_may_end.set()
        super().shutdown(*args, **kwargs)

    def _unpack_and_call(self, packed: bytes, first: bool):
        fn, args, kwargs = pickle.loads(packed)
        try:
            return fn(*args, **kwargs)
        finally:
            if first:  # for one who waits for pairs, the second one never comes
                self.first_may_end.wait(timeout=0.5)
                sleep(0.05)

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
            if first:
                self.first_may_end.set()
            return ask(*args, **kwargs)

        return asked


# 07-identical -------------------------------------------------------------------------


@exercise("07-identical", seconds=20)
def check_07_identical(survey_in):
    cases = [(5, 3), (12, 3), (16, 3), (22, 3)]  # here the order shows in the sum
    for seed, count in [(1, 1), (2, 12), *cases, (5, 30)]:
        with trying(f"survey_in(pool, {seed}, {count})") as expect:
            with PackingPool() as pool:
                got = survey_in(pool, seed, count)
            expect(isinstance(got, Real), got=got, think="what is returned: one number")
            right = survey(seed, count)
            think = "the numbers behind the mean: which two random numbers does each "
            think += "pendulum get in survey, in which order?"
            if math.isclose(got, right):
                think = "the last digits: are the same products added one after the "
                think += "other, in the same order, and the sum divided once, as in "
                think += "survey? (From Python 3.12, sum() adds in another way.)"
            both = f"{got!r}, and survey({seed}, {count}) is {right!r}"
            expect(got == right, got=both, think=think)
            expect.quick(
                pool.tasks,
                got="the right number, and no task in the pool",
                think="who computes each period",
            )
            expect.quick(
                pool.tasks > 1 or count < 30,
                got=f"all {count} pendulums in one task",
                think="how many workers have something to do then",
            )
            expect.quick(
                pool.tasks == 1 or pool.together != 1,
                got="never more than one task in the pool",
                think="what you wait for before you hand in the next pendulum",
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
            isinstance(bottlenecks, dict) and set(bottlenecks) == set(CAUSES),
            got=f"of type {type(bottlenecks).__name__}: {shown(bottlenecks)}",
            think=f"the form: a dictionary of three programs: {', '.join(CAUSES)}",
        )
        expect(
            all(value in range(1, 7) for value in bottlenecks.values()),
            got=list(bottlenecks.values()),
            think="what each value is: the number of a question, from 1 to 6",
        )
        for name, (cause, think) in CAUSES.items():
            expect(bottlenecks[name] == cause, think=f'"{name}" again: {think}')


# 07-finish ----------------------------------------------------------------------------

RESULTS = 0, None, "", 3, 4.5  # a result may be nothing much


class WorkToFinish:
    """The check's work: takes a moment, fails where it is told to, notes its calls."""

    def start(self, bad: dict) -> None:
        self.bad, self.calls = bad, []

    def __call__(self, task):
        self.calls.append(task)
        sleep(0.01)  # not done at once
        if task in self.bad:
            raise self.bad[task]
        return RESULTS[task % len(RESULTS)]

    def __reduce__(self) -> str:
        return "work"  # packed by its name, as functions are


work = WorkToFinish()


@exercise("07-finish", seconds=15)
def check_07_finish(run_all):
    error = ValueError("bad data")
    for tasks, done, bad in [
        ([1, 2, 3, 4, 5, 6, 7, 8], {}, {}),
        ([5, 6, 7, 8, 9, 10], {}, {7: error}),
        ([3, 1, 2, 9, 8, 7], {1: 0, 9: 40}, {3: error, 8: KeyError("x")}),
        ([1, 2], {1: 10, 2: 20}, {}),
        (list(range(40, 0, -1)), {7: 7}, dict.fromkeys((*range(1, 30, 4), 40), error)),
    ]:
        _try_finish(run_all, tasks, done, bad)


def _try_finish(run_all, tasks: list, done: dict, bad: dict) -> None:
    work.start(bad)
    tried = f"run_all(work, {tasks}, pool, {done})"
    if bad:
        tried += f", where {' and '.join(map(str, bad))} fail{'s'[: len(bad) < 2]}"
    given = list(tasks), dict(done)
    with trying(tried, *given) as expect:
        with PackingPool() as pool:
            results, failed = _what_run_all_returns(expect, run_all, pool, *given)
            sent = pool.tasks
            try:
                pool.submit(abs, 0)
            except RuntimeError:
                whose = "whose pool it is, and who closes it"
                expect(False, got="a closed pool", think=whose)
        _expect_finished(expect, results, failed, tasks, done, bad)
        expect.quick(
            sent >= len(work.calls),
            got=f"{sent} tasks went to the pool",
            think="who computed them? The results are right",
        )
        expect.quick(
            sent < 5 or pool.together != 1,
            got="one task in the pool when its result was asked for, with four workers",
            think="how many tasks are in the pool when you ask for the first result",
        )


def _what_run_all_returns(expect, run_all, pool, tasks: list, done: dict) -> list[dict]:
    """The two dictionaries as they are now, whatever is added later."""
    try:
        got = run_all(work, tasks, pool, done)
    except (ValueError, KeyError) as error:
        expect(
            error not in work.bad.values(),
            got=f"{type(error).__name__}: {error}",
            think="who should catch one task's exception, so that it stops no other",
        )
        raise
    pair = isinstance(got, tuple | list) and len(got) == 2
    expect(
        pair and all(isinstance(part, dict) for part in got),
        got=got,
        think="what comes back: two dictionaries, results and failed",
    )
    return [dict(part) for part in got]


def _expect_finished(expect, results: dict, failed: dict, tasks, done, bad) -> None:
    again = sorted(set(work.calls) & set(done))
    expect(
        not again,
        got=f"{again} computed again",
        think="what you know from done already",
    )
    lost = [task for task in tasks if task not in results and task not in failed]
    old = set(lost) <= set(done)
    think = "what becomes of each task: who waits until it has ended, and under which "
    think += "task is its result kept?"
    if bad:
        think = "what becomes of the tasks that come after one that failed"
    elif not any(RESULTS[task % len(RESULTS)] for task in lost):
        think = "results such as 0, None and an empty text: do you keep them?"
    expect(
        not lost or old,
        got=f"in neither dictionary: {', '.join(map(str, lost))}",
        think=think,
    )
    think = "what failed holds: each task that raised, with its exception, no other"
    if extra := [str(task) for task in failed if task not in bad]:
        think = f"task {', '.join(extra)}: it did not raise, so which call keeps its "
        think += "own result for you?"
    expect(
        set(failed) == set(bad) and all(failed[task] is bad[task] for task in bad),
        got=f"failed is {failed}",
        think=think,
    )
    new = [task for task in tasks if task not in done and task not in bad]
    expect(
        results == done | {task: RESULTS[task % len(RESULTS)] for task in new},
        got=f"results are {results}",
        think="what results holds: the old ones and the new ones, of every task that "
        "did not raise, each under its own task",
    )
