"""Checks of the exercises of lesson 03, The GIL."""

import os
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from threading import Event, Lock, Thread, current_thread
from time import monotonic, perf_counter, process_time, sleep, thread_time, time
from typing import NamedTuple
from unittest.mock import patch

from sidebyside import span
from sidebyside.any_number import as_number
from sidebyside.by_value import packed_answer
from sidebyside.exercises import exercise, trying
from sidebyside.expectations import Attempts, Expect
from sidebyside.scratch import open_scratch_to_append, read_all_scratch, scratch_file

SPANS = [
    ([(0, 1), (2, 3)], "two spans that never meet: one is open at a time"),
    ([(0, 2), (0, 3)], "two that start at the same moment: does each of them count?"),
    ([(0, 1), (1, 2)], "a span that ends at 1: is it still open at 1?"),
    ([], "no span at all: how many are open then?"),
    (
        [(0, 9), (1, 2), (3, 4)],
        "spans that overlap one span: must they overlap each other?",
    ),
    (
        [(0, 2), (1, 3), (2, 4), (5, 6)],
        "your drawing of the example: how many are open at each moment?",
    ),
    ([(4, 5), (0, 3), (1, 2)], "the order of the spans: which orders are allowed?"),
    ([(0, 5), (1, 4), (2, 3)], "three that all meet: how far does your count go?"),
    (
        [(0, 10), (1, 4), (3, 9)],
        "three that meet for a short time: at which moments do you count?",
    ),
    ([(0, 5)] * 9, "equal spans: does each of them count?"),
    (
        [(7000.001, 7000.003), (7000.002, 7000.004)],
        "times that are not whole numbers: at which moments can the number change?",
    ),
    (
        [(6e-6, 9e-6), (4e-6, 7e-6)],
        "spans of microseconds: what is left of their times in yours?",
    ),
    ([(-3, -1), (-2, 0), (-4, -1.5)], "times below 0: where does your count begin?"),
    ([(0, 1), (-2, 0)], "a span that ends at 0: is it still open at 0?"),
    (
        [(1e6, 1e6 + 0.001), (1e6 + 0.0005, 1e6 + 1)],
        "a clock that has run for days: are two times equal that nearly are?",
    ),
    (
        [(start, start + 3) for start in range(1500)],
        "a long list: is there room for it in what you do?",
    ),
]


def _spans_to_overlap() -> Iterator[tuple[list, str]]:
    dice = random.Random(3)
    for unit in [1] * 100 + [0.001] * 20 + [1e-6] * 20:
        starts = [dice.randint(0, 12) for _ in range(dice.randint(1, 9))]
        spans = [(unit * s, unit * (s + dice.randint(1, 6))) for s in starts]
        think = "your drawing of them: at which moment are most of them open, and at "
        think += "which moments do you count?"
        yield spans, think


def _most_that_overlap(spans: list[tuple[float, float]]) -> int:
    """Slow and plain: at each start, count the spans that are open."""
    open_at = [sum(s <= start < e for s, e in spans) for start, _ in spans]
    return max(open_at, default=0)


@exercise("03-overlap")
def check_03_overlap(overlap):
    attempt, given = Attempts(overlap), []
    for spans, think in [*SPANS, *_spans_to_overlap()]:
        attempt(_expect_most_that_overlap, given, spans, think)


def _expect_most_that_overlap(
    overlap: Callable, given: list, spans: list[tuple[float, float]], think: str
) -> None:
    """`given` is the same list in each call, with other spans."""
    given[:] = spans
    written = spans if len(spans) < 20 else f"{spans[:2]} and so on, {len(spans)} spans"
    with trying(f"overlap({written})", given) as expect:
        got = overlap(given)
        number = "what is returned: one number, and nothing beside it"
        expect(as_number(got) is not None, got=got, think=number)
        expect(as_number(got) == _most_that_overlap(spans), got=got, think=think)


class _Nap(NamedTuple):
    """A call of sleep for more than 0.02 s; shorter ones are a way to wait."""

    start: float
    seconds: float

    @property
    def end(self) -> float:
        """Asked for: on a busy machine it ends later."""
        return self.start + self.seconds


class _NapsAndClocks(NamedTuple):
    """When an answer has slept, and when it has read a clock, in the main thread."""

    naps: list[_Nap]
    reads: list[float]

    def forget(self) -> None:
        self.naps.clear()
        self.reads.clear()


@contextmanager
def _naps_and_clocks_of(answer: Callable) -> Iterator[tuple[Callable, _NapsAndClocks]]:
    """A copy of the answer, which imports our sleep and clocks, by whatever name."""
    noted, here, sent = _NapsAndClocks([], []), current_thread(), packed_answer(answer)

    def noted_sleep(seconds):
        if seconds > 0.02 and current_thread() is here:
            noted.naps.append(_Nap(perf_counter(), seconds))
        sleep(seconds)

    def noted_clock(clock):
        def read():
            if current_thread() is here:
                noted.reads.append(perf_counter())
            return clock()

        return read

    clocks = {c.__name__: noted_clock(c) for c in (perf_counter, monotonic, time)}
    with patch.multiple("time", sleep=noted_sleep, **clocks):
        yield pickle.loads(sent), noted


class _GainMoment(NamedTuple):
    """Two clocks read at once; moments are compared by the time on the wall."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "_GainMoment":
        return cls(perf_counter(), process_time())


class _GainCall(NamedTuple):
    start: _GainMoment
    end: _GainMoment
    thread: Thread


class _GainWork:
    """Work that notes in which thread it ran, from when to when.

    It waits `free` s, every other time half as long, and then `held` s with a lock, as
    if it were the GIL; and `crowded` s more with the lock when another call waits
    for it. It computes a little, the same in each call: who compares CPU time finds 1.
    With `late`, the first of two threads ends when `gain` has returned, or so many
    seconds later: who has not waited for it is seen, however busy the machine is.
    With `span`, it records a span of a small part of it, the first.
    """

    def __init__(
        self,
        free: float,
        held: float,
        crowded: float,
        late: float = 0,
        span: float = 0,
    ):
        self.free, self.held, self.crowded, self.late = free, held, crowded, late
        self.span = span
        self.lock = Lock()
        self.begun, self.calls, self.over = 0, [], Event()
        self.locked = Event()  # by the first of two threads

    def __call__(self) -> None:
        start = _GainMoment.now()
        self.begun += 1
        number = self.begun
        if number % 2:
            self.locked.clear()
        free = self.free if number % 2 else self.free / 2
        cpu = thread_time()
        while thread_time() < cpu + 0.002:
            pass
        if self.span:
            with span("a part of work"):
                sleep(self.span)
        sleep(free)
        if self.held:
            if number % 2 == 0:
                self.locked.wait(1)
            with self.lock:
                self.locked.set()
                sleep(self.held)
                if self.begun > len(self.calls) + 1:
                    sleep(self.crowded)
        if number % 2 and self.begun > number:
            self.over.wait(self.late)
        self.calls.append(_GainCall(start, _GainMoment.now(), current_thread()))

    def all_calls(self) -> list[_GainCall]:
        """Those too that nobody has waited for."""
        sleep(0.02)
        while self.begun > len(self.calls):
            sleep(0.01)
        return self.calls


class _GainWay(NamedTuple):
    """Calls that ran at once, or one; when, and between which moments if any clock."""

    calls: list[_GainCall]
    start: _GainMoment
    end: _GainMoment
    earliest: _GainMoment | None = None  # no clock for these calls was started before,
    latest: _GainMoment | None = None  # or stopped after


def _ways_of_gain(
    calls: list[_GainCall],
    before: _GainMoment,
    after: _GainMoment,
    naps: list[_Nap],
) -> list[_GainWay]:
    """Calls that overlap belong together; a clock is read between two ways."""
    ways = []
    for call in sorted(calls, key=lambda call: call.start):
        if ways and call.start < ways[-1].end:
            last = ways.pop()
            both, end = [*last.calls, call], max(last.end, call.end)
            ways.append(_GainWay(both, last.start, end))
        else:
            ways.append(_GainWay([call], call.start, call.end))
    ends = [before, *(way.end for way in ways)]
    starts = [*(way.start for way in ways[1:]), after]
    return [
        way._replace(earliest=earliest, latest=_without_naps(way.end, latest, naps))
        for way, earliest, latest in zip(ways, ends, starts, strict=False)
    ]


def _without_naps(
    end: _GainMoment, latest: _GainMoment, naps: list[_Nap]
) -> _GainMoment:
    """No clock need run while the answer naps and all calls have ended."""
    napped = sum(
        max(0, min(nap.end, latest.wall) - max(nap.start, end.wall)) for nap in naps
    )
    return latest._replace(wall=latest.wall - napped)


KINDS_OF_WORK = {
    "work of which the first thread has most": (1, 0, 0, 20),
    "work that waits, now longer, now shorter": (1, 0, 0),
    "work that waits and holds a lock, so that threads take turns": (0, 1, 0),
    "work that holds a lock half of its time": (0.5, 0.5, 0),
    "work that takes longer when another thread does it too": (0, 1, 4),
    "work of which only a part has a span": (2, 0, 0, 0, 0.1),
}


@exercise("03-gain", seconds=30)
def check_03_gain(gain):
    with _naps_and_clocks_of(gain) as (gain, noted):
        for kind, times in KINDS_OF_WORK.items():
            _expect_gain_with_work(gain, noted, kind, times)
        _expect_second_gain_measured(gain)


def _expect_gain_with_work(
    gain: Callable, noted: _NapsAndClocks, kind: str, times: tuple
) -> None:
    with trying(f"gain(work) with {kind}") as expect:
        for seconds in 0.06, 0.3:  # longer, should threads miss each other
            work = _GainWork(*(seconds * time for time in times))
            noted.forget()
            own_cpu, before = thread_time(), _GainMoment.now()
            got, after = gain(work), _GainMoment.now()
            own_cpu = thread_time() - own_cpu
            work.over.set()
            ways = _ways_of_gain(work.all_calls(), before, after, noted.naps)
            if any(len(way.calls) > 1 for way in ways):
                break
        expect(as_number(got) is not None, got=got, think="one number: a ratio")
        _expect_gain_tried_both_ways(expect, got, ways, after)
        _expect_two_starts_of_threads_at_once(expect, got, ways, noted.naps)
        _expect_the_measured_gain(expect, float(got), ways, noted)
        own = f"{own_cpu:.1f} s of computing in the thread that called `gain`"
        think = "how your program waits for its threads: does it compute, and so "
        think += "take turns with them?"
        # each call of work computes for 0.002 s
        expect(own_cpu < 0.2, got=f"{float(got):.4g}, and {own}", think=think)


def _expect_second_gain_measured(gain: Callable) -> None:
    with trying("gain(work), twice with the same work") as expect:
        work, calls = _GainWork(0.02, 0, 0), []
        for _ in range(2):
            gain(work)
            calls.append(len(work.all_calls()) - sum(calls))
        think = "what you keep from one call of gain for the next"
        got = f"{calls[0]} calls of work the first time, {calls[1]} the second"
        expect(calls[1] >= 4, got=got, think=think)


def _expect_gain_tried_both_ways(
    expect: Expect, got: object, ways: list[_GainWay], after: _GainMoment
) -> None:
    """Two calls one by one, and two at the same time, all ended."""
    ended = [call.end <= after for way in ways for call in way.calls]
    expect(
        all(ended),
        got=f"{got}, when {sum(ended)} of {len(ended)} calls of work had ended",
        think="the clock: has every thread ended when you stop it?",
    )
    expect(ways, got=f"{got}, and work was never called", think="who calls work?")
    alone = sum(len(way.calls) == 1 for way in ways)
    expect(
        len(ways) > alone,
        got=f"{got}; calls of work: {alone}, never two at the same time",
        think=_why_never_two_calls_at_once(ways),
    )
    at_once = max(_calls_of_work_at_once(way) for way in ways)
    expect(
        at_once == 2,
        got=f"{got}; {at_once} calls of work ran at the same time",
        think="the number of threads: had the first two ended before the next call?",
    )
    in_threads = sum(len(way.calls) for way in ways) - alone
    expect(
        alone >= in_threads == 2 * (len(ways) - alone),
        got=f"{got}; calls of work: {alone} alone, {in_threads} beside another",
        think="the same amount of work: is it done both ways?",
    )


def _calls_of_work_at_once(way: _GainWay) -> int:
    return _most_that_overlap([(call.start, call.end) for call in way.calls])


def _why_never_two_calls_at_once(ways: list[_GainWay]) -> str:
    threads = [call.thread for way in ways for call in way.calls]
    others = [thread for thread in threads if thread is not current_thread()]
    if not others and len(threads) > 2:
        return "the thread that did it all. Did you write `work()` as the target?"
    if not others:
        return "the second way: which line starts its two threads?"
    if len(others) > 1 and len(set(others)) == 1:
        return "the number of threads: which one does the second call?"
    return "the moment when each thread starts: has the one before ended by then?"


def _expect_two_starts_of_threads_at_once(
    expect: Expect, got: object, ways: list[_GainWay], naps: list[_Nap]
) -> None:
    pairs = [way.calls for way in ways if len(way.calls) == 2]
    between = [
        nap.seconds
        for nap in naps
        for first, second in pairs
        if first.start.wall < nap.end <= second.start.wall
    ]
    expect(
        not between,
        got=f"{got}, with a nap of {max(between, default=0):g} s between two starts",
        think="the same time: what is done between the starts of the two threads?",
    )


def _expect_the_measured_gain(
    expect: Expect, got: float, ways: list[_GainWay], noted: _NapsAndClocks
) -> None:
    """The number lies where clocks can have seen it, however busy the machine was."""
    pairs = [(a, b) for a, b in pairwise(ways) if len(a.calls) == len(b.calls) == 1]
    expect(
        pairs,
        got=f"{got}; there were never two calls one after the other",
        think="the same amount of work: is it done twice in a row?",
    )
    threads = [(way, way) for way in ways if way.calls[1:]]
    serial, parallel = (_gain_range(way, "wall") for way in (pairs, threads))
    cpu = _gain_ratio(*(_gain_range(way, "cpu") for way in (pairs, threads)))
    think = _when_its_clock_was_read(pairs, threads, noted)
    if not think:
        think = _what_number_is_it_if_no_gain(got, serial, parallel, cpu)
    elif think == CLOCK_IS_RIGHT:
        think = _what_is_made_of_durations(got, serial, parallel) or think
    low, high = _gain_ratio(serial, parallel)
    rounded = 0.005 if got == round(got, 2) else 0  # two decimals are enough
    expect(
        _gain_is_between(low - rounded, high + rounded, got),
        got=f"{got:.4g}; one by one it took {serial.low:.2f} s, in threads "
        f"{parallel.low:.2f} s",
        think=think,
    )


CLOCK_IS_RIGHT = "what is returned: between which moments does each duration lie, and "
CLOCK_IS_RIGHT += "what is made of the two?"


def _when_its_clock_was_read(
    pairs: list[tuple[_GainWay, _GainWay]],
    threads: list[tuple[_GainWay, _GainWay]],
    noted: _NapsAndClocks,
) -> str:
    """What to think of, as far as its naps and its clock are known."""
    for way, _ in threads:
        if any(nap.start < way.end.wall < nap.end for nap in noted.naps):
            return "the moment when both threads end: what does your program do then?"
        if any(way.calls[1].start.wall < read < way.end.wall for read in noted.reads):
            return "the clock of the threads: what does it count, and until when?"
    if all(_clock_was_read_around(way, noted.reads) for way in (pairs, threads)):
        return CLOCK_IS_RIGHT
    return ""


def _clock_was_read_around(ways: list[tuple[_GainWay, _GainWay]], reads: list) -> bool:
    """Was a clock read right before one of these ways, and right after it?"""
    return any(
        any(first.earliest.wall <= read <= first.start.wall for read in reads)
        and any(last.end.wall <= read <= last.latest.wall for read in reads)
        for first, last in ways
    )


class _GainRange(NamedTuple):
    low: float
    high: float


def _gain_range(ways: list[tuple[_GainWay, _GainWay]], clock: str) -> _GainRange:
    """What a clock can have said at least and at most, from a first way to a last."""
    low = [getattr(z.end, clock) - getattr(a.start, clock) for a, z in ways]
    high = [getattr(z.latest, clock) - getattr(a.earliest, clock) for a, z in ways]
    return _GainRange(min(low), max(high))


def _gain_ratio(above: _GainRange, below: _GainRange) -> _GainRange:
    return _GainRange(above.low / below.high, above.high / below.low)


def _gain_is_between(low: float, high: float, got: float) -> bool:
    return low - 0.02 * abs(low) <= got <= high + 0.02 * abs(high)


def _what_number_is_it_if_no_gain(
    got: float, serial: _GainRange, parallel: _GainRange, cpu: _GainRange
) -> str:
    if think := _what_is_made_of_durations(got, serial, parallel):
        return think
    if _gain_is_between(*cpu, got) or abs(got - 1) < 0.3:
        return "the two clocks: which of them runs while work waits?"
    if got > 5 * serial.low / parallel.low:
        return "the clock of the threads: what does it count, and until when?"
    return "your clock: what is done between the moments at which you read it?"


def _what_is_made_of_durations(
    got: float, serial: _GainRange, parallel: _GainRange
) -> str:
    if got == round(got, 1):
        return "the number as it comes out: is something rounded, or not measured?"
    if _gain_is_between(*_gain_ratio(parallel, serial), got):
        return "the ratio: above 1 means that threads are faster. What belongs above?"
    if _gain_is_between(serial.low - parallel.high, serial.high - parallel.low, got):
        return "what is asked for: is a difference of seconds how many times as fast?"
    if any(_gain_is_between(*way, got) for way in (serial, parallel)):
        return "what is asked for: seconds, or how many times as fast?"
    return ""


SIX = {
    "wait": (True, "does sleep need the GIL, or a core, while it waits?"),
    "loop": (False, "every step of it is Python code: what does that need?"),
    "sort": (False, "it is C code, but what does it compare?"),
    "checksum": (True, "its loop over bytes is C code: does it run any Python code?"),
    "large product": (True, "millions of plain numbers for each call: who is in C?"),
    "small products": (
        False,
        "a product of 4 x 4 numbers is over in no time. What takes the rest of it, and "
        "does that need the GIL?",
    ),
}


@exercise("03-six")
def check_03_six(gainers):
    with trying("gainers") as expect:
        names = list(gainers) if isinstance(gainers, Iterable) else [gainers]
        expect(
            not isinstance(gainers, str | Mapping)
            and all(isinstance(name, str) for name in names),
            got=gainers,
            think='the form: a set of names is written {"loop", "sort"}',
        )
        unknown = ", ".join(sorted(set(names) - set(SIX)))
        expect(
            not unknown,
            got=f"a set with {unknown}, none of the six",
            think=f"the names: {', '.join(SIX)}",
        )
        wrong = [name for name, (gains, _) in SIX.items() if (name in names) != gains]
        right = f"predictions that are right: {len(SIX) - len(wrong)} of {len(SIX)}"
        asked = "the question: does your set name those that gain, or the others?"
        expect(len(wrong) < len(SIX), got=right, think=asked)
        think = f'"{wrong[0]}" again: {SIX[wrong[0]][1]}' if wrong else ""
        expect(not wrong, got=right, think=think)


class FetchedPage(NamedTuple):
    """What the check's `fetch` returns; `notes` is a file for `compute`."""

    name: str
    notes: str


class FetchedResult(NamedTuple):
    """What the check's `compute` returns."""

    page: FetchedPage


def _compute_with_fetched(page: FetchedPage) -> FetchedResult:
    """It leaves a note, which a file brings here even from another process."""
    notes = open_scratch_to_append(page.notes)
    os.write(notes, f"{page.name}\n".encode())
    os.close(notes)
    return FetchedResult(page)


class _WebToFetchFrom:
    """Pages that arrive when the check says so, and notes of who asked for which.

    No page arrives before all have been asked for, and `slow` seconds more. Then one
    does, a second one as soon as somebody computes with it, and then all others. If
    nothing happens for some turns of 10 ms, they arrive all the same: a busy machine
    makes turns longer, not fewer, and a worker process has seconds to start.
    """

    def __init__(self, names: list[str], slow: float = 0.1):
        self.names, self.asked, self.at_once = list(names), [], 0
        self.slow = slow  # who does not wait for the pages has left by then
        self.early = list(dict.fromkeys([*names[len(names) // 2 :][:1], *names[-1:]]))
        self.overlapped = 0  # of those that were early, how many were computed with
        self.arrived = {name: Event() for name in names}
        self.left = Event()
        self.file, self.notes = scratch_file()

    def __enter__(self) -> "_WebToFetchFrom":
        Thread(target=self._let_pages_arrive, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.left.set()

    def fetch(self, name: str) -> FetchedPage:
        self.asked.append(name)
        self.arrived[name].wait()
        return FetchedPage(name, self.notes)

    @property
    def computed(self) -> list[str]:
        return read_all_scratch(self.file).decode().split("\n")[:-1]

    def _let_pages_arrive(self) -> None:
        while not self.asked and not self.left.wait(0.001):
            pass
        self._wait(lambda: len(self.asked), len(self.names), turns=40)
        self.at_once = len(self.asked)
        if self.at_once == len(self.names):
            self.left.wait(self.slow)
        for number, name in enumerate(self.early):
            self.arrived[name].set()
            if self.at_once == len(self.names) and self.overlapped == number:
                self._wait(lambda: len(self.computed), number + 1, turns=400)
                self.overlapped = len(self.computed)
        for arrived in self.arrived.values():
            arrived.set()

    def _wait(self, count: Callable[[], int], enough: int, turns: int) -> None:
        """Until `count()` is enough, or has not grown for so many turns."""
        seen = quiet = 0
        while seen < enough and quiet < turns and not self.left.wait(0.01):
            quiet = quiet + 1 if count() == seen else 0
            seen = count()


# What fetch and compute return for two names; what to think about.
SAME_PAGES = [
    ("page", 7, "two pages that are equal: is each of them computed with?"),
    (None, 7, "a page that is None: what is it?"),
    ("page", None, "a result that is None: is it there, or is it missing?"),
]


@exercise(
    "03-fetch",
    seconds=15,
    when_hung="what would have to happen for this line to end? A page may be None, too",
)
def check_03_fetch(process_all):
    attempt = Attempts(process_all)
    _expect_fetched_and_computed(process_all, ["b", "c", "a"])
    attempt(_expect_fetched_and_computed, ["a"], 1.5)
    _expect_no_nap_while_fetching(process_all)
    # more than the threads that a pool has if nobody says, or that people find enough
    attempt(_expect_fetched_and_computed, [f"page {7 * n % 300}" for n in range(300)])
    attempt(_expect_fetched_and_computed, [])
    for page, result, think in SAME_PAGES:
        _expect_same_pages_computed(process_all, page, result, think)
    twice = ["b", "a", "b"]
    with trying(f"process_all({twice}, fetch, compute)", twice) as expect:
        got = process_all(twice, lambda name: name, lambda page: page.upper())
        think = "a name that stands in the list twice: how many results has the list?"
        expect(got == ["B", "A", "B"], got=got, think=think)


def _expect_fetched_and_computed(
    process_all: Callable, names: list[str], slow: float = 0.1
) -> None:
    written = names if len(names) < 9 else f"{len(names)} names"
    with (
        trying(f"process_all({written}, fetch, compute)", names) as expect,
        _WebToFetchFrom(names, slow) as web,
    ):
        try:
            results = process_all(names, web.fetch, _compute_with_fetched)
        except Exception:
            _expect_each_page_fetched_once(expect, web)
            raise
        _expect_results_of_fetched(expect, web, results)
        _expect_fetching_to_overlap(expect, web)


def _expect_same_pages_computed(
    process_all: Callable, page: object, result: object, think: str
) -> None:
    fetched, computed = [], []

    def fetch(name):
        fetched.append(name)
        return page

    def compute(page):
        computed.append(page)
        return result

    tried = f"process_all([1, 2], fetch, compute), where fetch returns {page!r} and "
    with trying(f"{tried}compute {result!r}") as expect:
        got = process_all([1, 2], fetch, compute)
        expect(got == [result, result], got=got, think=think)
        calls = f"{len(fetched)} calls of fetch and {len(computed)} of compute"
        expect(len(fetched) == len(computed) == 2, got=calls, think=think)


def _expect_no_nap_while_fetching(process_all: Callable) -> None:
    names = ["b", "c", "a"]
    with (
        trying(f"process_all({names}, fetch, compute)") as expect,
        _naps_and_clocks_of(process_all) as (copy, noted),
        _WebToFetchFrom(names) as web,
    ):
        copy(names, web.fetch, _compute_with_fetched)
        longest = max((nap.seconds for nap in noted.naps), default=0)
        think = "the nap: if all pages arrive while it lasts, what waits for its end?"
        expect.quick(not longest, got=f"a nap of {longest:g} s", think=think)


def _expect_each_page_fetched_once(expect: Expect, web: _WebToFetchFrom) -> None:
    twice = [name for name, times in Counter(web.asked).items() if times > 1]
    expect(
        not twice,
        got=f"{len(web.asked)} calls of fetch, {web.asked.count(twice[0])} of them "
        f"for {twice[0]!r}"
        if twice
        else "",
        think="the name that each call of fetch gets: is it a new one every time?",
    )


def _expect_results_of_fetched(
    expect: Expect, web: _WebToFetchFrom, results: object
) -> None:
    """A list with what compute returned for each name, in order; nothing done twice."""
    arrived = [name for name in web.names if web.arrived[name].is_set()]
    _expect_each_page_fetched_once(expect, web)
    if not web.names:
        think = "no names, no results: what is [f(name) for name in []]?"
        expect(isinstance(results, list) and not results, got=results, think=think)
    expect(isinstance(results, list), got=results, think="what is asked for: a list")
    got = f"a list, when {len(arrived)} of {len(web.names)} pages had arrived"
    done = "the moment at which you return: is every thread done?"
    expect(arrived == web.names, got=got, think=done)
    expect(
        all(type(result) is FetchedResult for result in results),
        got=results,
        think="the entries of the list: is each one a result of compute?",
    )
    found = [result.page.name for result in results]
    got = f"results for {found}" if len(found) < 9 else f"{len(found)} results"
    expect(len(found) == len(web.names), got=got, think=done)
    expect(
        found == web.names,
        got=got + f", the first for {found[:1]}, not in the order of the names",
        think="the order: that of the names, or that in which pages arrive?",
    )
    expect(
        len(web.computed) == len(web.names),
        got=f"{len(web.computed)} calls of compute",
        think="the calls of compute: one for each page?",
    )


def _expect_fetching_to_overlap(expect: Expect, web: _WebToFetchFrom) -> None:
    """All pages on their way at once, and work for whoever has one."""
    expect.quick(
        web.at_once == len(web.names),
        got=f"at most {web.at_once} of {len(web.names)} pages on their way at once",
        think="waiting, which costs no core: who keeps the next page from being asked "
        "for?",
    )
    expect.quick(
        web.overlapped >= min(len(web.early), len(web.names) - 1),
        got="a page had arrived, and nobody computed with it before the others came",
        think="a page that arrives in the midst of the others: who waits for what?",
    )
