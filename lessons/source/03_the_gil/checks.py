"""Checks of the exercises of lesson 03, The GIL."""

import random
from dataclasses import dataclass
from itertools import count, pairwise
from math import inf
from threading import Event, Thread
from time import perf_counter, sleep, thread_time
from typing import NamedTuple

from sidebyside.exercises.check import exercise, trying
from sidebyside.exercises.expectations import Expect

SPANS = [
    ([(0, 1), (2, 3)], "two spans that never meet: one is open at a time"),
    ([(0, 2), (0, 3)], "two that start at the same moment: does each of them count?"),
    ([(0, 1), (1, 2)], "a span that ends at 1: is it still open at 1?"),
    (
        [(0, 9), (1, 2), (3, 4)],
        "spans that overlap one span: must they overlap each other?",
    ),
    (
        [(0, 2), (1, 3), (2, 4), (5, 6)],
        "your drawing of the example: at which moment are more than two open?",
    ),
    (
        [(0, 10), (1, 4), (3, 9)],
        "three that meet for a short time: at which moments do you count?",
    ),
    (
        [(7000.001, 7000.003), (7000.002, 7000.004)],
        "times that are not whole numbers: at which moments can the number change?",
    ),
    ([(2, 3), (0, 1)], "pairs in any order: does your answer need them sorted?"),
]


def _most_at_once(spans: list[tuple[float, float]]) -> int:
    """Slow and plain: at each start, count the spans that are open."""
    return max(sum(s <= start < e for s, e in spans) for start, _ in spans)


@exercise("03-overlap")
def check_03_overlap(overlap):
    dice, more = random.Random(3), []
    for unit in [1] * 50 + [1e-6] * 10:
        starts = [dice.randint(0, 12) for _ in range(dice.randint(1, 9))]
        more.append([(unit * s, unit * (s + dice.randint(1, 6))) for s in starts])
    think = "your drawing of them: at which moment are most of them open, and at which "
    think += "moments do you count?"
    for spans, think in [*SPANS, *((spans, think) for spans in more)]:
        with trying(f"overlap({spans})", spans) as expect:
            number = expect.number(got := overlap(spans))
            expect(number == _most_at_once(spans), got=got, think=think)


@dataclass
class _Call:
    """A call of work."""

    start: float
    end: float = inf


class _Work:
    """Work that notes when it is called; its calls nap for `naps`, in turn.

    A call that meets another naps for `crowded` more. Each computes for the same short
    time, so that CPU time says 1.
    """

    def __init__(self, naps: tuple[float, float], crowded: float):
        self.naps, self.crowded = naps, crowded
        self.calls, self.numbers = [], count(1)

    def __call__(self) -> None:
        cpu, call, number = thread_time(), _Call(perf_counter()), next(self.numbers)
        beside = any(other.end == inf for other in self.calls)
        self.calls.append(call)
        while thread_time() < cpu + 0.002:
            pass
        sleep(self.naps[number % 2])
        if beside or len(self.calls) > number:
            sleep(self.crowded)
        call.end = perf_counter()


class _Way(NamedTuple):
    """Calls that met each other, or one that met none."""

    calls: list[_Call]
    start: float
    end: float
    earliest: float  # no clock for these calls was started before,
    latest: float  # or stopped after


def _ways(calls: list[_Call], before: float, after: float) -> list[_Way]:
    groups = []
    for call in sorted(calls, key=lambda call: call.start):
        if groups and call.start < max(other.end for other in groups[-1]):
            groups[-1].append(call)
        else:
            groups.append([call])
    starts = [group[0].start for group in groups]
    ends = [max(call.end for call in group) for group in groups]
    free = [before, *ends], [*starts[1:], after]
    return [_Way(*way) for way in zip(groups, starts, ends, *free, strict=False)]


KINDS_OF_WORK = {
    "work that waits": ((0.1, 0.2), 0),
    "work that takes longer when another thread does it too": ((0.2, 0.1), 0.6),
}


@exercise("03-gain", seconds=30)
def check_03_gain(gain):
    for kind, times in KINDS_OF_WORK.items():
        with trying(f"gain(work) with {kind}") as expect:
            work, before = _Work(*times), perf_counter()
            got, after = gain(work), perf_counter()
            ratio = expect.number(got, "one number, a ratio")
            ways = _ways(work.calls, before, after)
            _expect_both_ways(expect, got, ways)
            _expect_the_measured_ratio(expect, ratio, ways)


def _expect_both_ways(expect: Expect, got: object, ways: list[_Way]) -> None:
    """Two calls one by one, and two at the same time, all ended."""
    calls = [call for way in ways for call in way.calls]
    expect(calls, got=f"{got}, and work was never called", think="who calls work?")
    ended = sum(call.end < inf for call in calls)
    expect(
        ended == len(calls),
        got=f"{got}, when {ended} of {len(calls)} calls of work had ended",
        think="the clock: has every thread ended when you stop it?",
    )
    alone = sum(len(way.calls) == 1 for way in ways)
    expect(
        alone < len(ways),
        got=f"{got}; calls of work: {alone}, never two at the same time",
        think="the two threads: what is the target of each, and has the first one "
        "ended when the second starts?",
    )
    in_a_row = any(len(a.calls) == len(b.calls) == 1 for a, b in pairwise(ways))
    in_pairs = all(len(way.calls) in (1, 2) for way in ways)
    expect(
        in_a_row and in_pairs,
        got=f"{got}; calls of work: {alone} alone, {len(calls) - alone} beside another",
        think="the same amount of work: is it done twice, both ways?",
    )


def _expect_the_measured_ratio(expect: Expect, got: float, ways: list[_Way]) -> None:
    """It lies where clocks can have seen it, however busy the machine was."""
    pairs = [(a, b) for a, b in pairwise(ways) if len(a.calls) == len(b.calls) == 1]
    serial = _seconds(pairs)
    threads = _seconds([(way, way) for way in ways if len(way.calls) == 2])
    think = "your own two durations beside these: which of them differs, and do you "
    think += "divide one by the other? Does your clock run while work waits?"
    if _lies_between(threads[0] / serial[1], threads[1] / serial[0], got):
        think = "the ratio: above 1 means that threads are faster. What belongs above?"
    expect(
        _lies_between(serial[0] / threads[1], serial[1] / threads[0], got),
        got=f"{got:.4g}; one by one it took {serial[0]:.2f} s, in threads "
        f"{threads[0]:.2f} s",
        think=think,
    )


def _seconds(ways: list[tuple[_Way, _Way]]) -> tuple[float, float]:
    """What a clock can have said at least and at most, from a first way to a last."""
    low = min(last.end - first.start for first, last in ways)
    return low, max(last.latest - first.earliest for first, last in ways)


def _lies_between(low: float, high: float, got: float) -> bool:
    return 0.98 * low <= got <= 1.02 * high


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
        wrong = [name for name, (gains, _) in SIX.items() if (name in gainers) != gains]
        right = f"predictions that are right: {len(SIX) - len(wrong)} of {len(SIX)}"
        asked = "the question: does your set name those that gain, or the others?"
        expect(len(wrong) < len(SIX), got=right, think=asked)
        think = f'"{wrong[0]}" again: {SIX[wrong[0]][1]}' if wrong else ""
        expect(not wrong, got=right, think=think)


class _Web:
    """Pages that arrive when the check says so, and notes of who asked for which.

    No page arrives before all have been asked for. Then the last one does, the one
    before it as soon as somebody computes with the last, and then all others. If
    nothing happens for some turns of 10 ms, they arrive all the same: a busy machine
    makes turns longer, not fewer.
    """

    def __init__(self, names: list[str]):
        self.names, self.asked, self.computed = list(names), [], []
        self.early = self.names[:0:-1][:2]
        self.at_once = self.overlapped = 0
        self.arrived = {name: Event() for name in names}
        self.left = Event()

    def __enter__(self) -> "_Web":
        Thread(target=self._let_pages_arrive, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self.left.set()

    def fetch(self, name: str) -> str:
        self.asked.append(name)
        self.arrived[name].wait()
        return f"page {name}"

    def compute(self, page: str) -> str:
        self.computed.append(page)
        return f"result of {page}"

    def _let_pages_arrive(self) -> None:
        while not self.asked and not self.left.wait(0.001):
            pass
        self._wait_until(self.asked, len(self.names))
        self.at_once = len(self.asked)
        self.left.wait(0.1)  # who does not wait for the pages has left by then
        for number, name in enumerate(self.early, 1):
            self.arrived[name].set()
            if self.at_once == len(self.names) and self.overlapped == number - 1:
                self._wait_until(self.computed, number)
                self.overlapped = len(self.computed)
        for arrived in self.arrived.values():
            arrived.set()

    def _wait_until(self, notes: list, enough: int) -> None:
        """Until there are enough notes, or no new one for 2 s."""
        seen = quiet = 0
        while seen < enough and quiet < 200 and not self.left.wait(0.01):
            quiet = quiet + 1 if len(notes) == seen else 0
            seen = len(notes)


@exercise(
    "03-fetch",
    seconds=15,
    when_hung="what would have to happen for this line to end?",
)
def check_03_fetch(process_all):
    for names in ["b", "c", "a"], ["a"], [f"page {7 * n % 300}" for n in range(300)]:
        written = names if len(names) < 9 else f"{len(names)} names"
        with (
            trying(f"process_all({written}, fetch, compute)", names) as expect,
            _Web(names) as web,
        ):
            got = process_all(names, web.fetch, web.compute)
            _expect_all_results(expect, web, got)
            _expect_no_page_to_wait(expect, web)


def _expect_all_results(expect: Expect, web: _Web, got: object) -> None:
    """A list with what compute returned for each name, in order."""
    expect(isinstance(got, list), got=got, think="what is asked for: a list")
    arrived = sum(arrived.is_set() for arrived in web.arrived.values())
    expect(
        arrived == len(web.names),
        got=f"a list, when {arrived} of {len(web.names)} pages had arrived",
        think="the moment at which you return: is every thread done?",
    )
    results = [f"result of page {name}" for name in web.names]
    think = "the entries of the list: is each one a result of compute?"
    if sorted(map(str, got)) == sorted(results):
        think = "the order: that of the names, or that in which pages arrive?"
    expect(got == results, got=got[:9], think=think)
    expect(
        sorted(web.asked) == sorted(web.names) and len(web.computed) == len(results),
        got=f"{len(web.asked)} calls of fetch and {len(web.computed)} of compute",
        think="the work for one page: is it fetched once and computed once?",
    )


def _expect_no_page_to_wait(expect: Expect, web: _Web) -> None:
    """All pages on their way at once, and work for whoever has one."""
    expect.quick(
        web.at_once == len(web.names),
        got=f"at most {web.at_once} of {len(web.names)} pages on their way at once",
        think="waiting, which costs no core: who keeps the next page from being asked "
        "for?",
    )
    expect.quick(
        web.overlapped >= len(web.early),
        got="a page had arrived, and nobody computed with it before the others came",
        think="a page that arrives in the midst of the others: who waits for what?",
    )
