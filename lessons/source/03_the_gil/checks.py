"""Checks of the exercises of lesson 03, The GIL."""

import random
from threading import Lock, get_ident
from time import perf_counter, sleep, thread_time
from typing import NamedTuple

from sidebyside.exercises import NotYet, TooSlow, exercise, expect


def _most_open(spans: list[tuple[float, float]]) -> int:
    """Slow and plain: at each start, count the spans that are open."""
    return max(
        (sum(s <= start < e for s, e in spans) for start, _ in spans),
        default=0,
    )


@exercise("03-overlap")
def check_overlap(overlap):
    def try_out(spans: list[tuple[float, float]], think: str) -> None:
        got = overlap(list(spans))
        expect(got == _most_open(spans), f"overlap({spans})", got, think)

    try_out([(0, 1), (2, 3)], "two spans that never meet: one is open at a time")
    try_out([(0, 1), (1, 2)], "a span that ends at 1 is no longer open at 1")
    try_out([], "no span at all: how many are open then?")
    try_out(
        [(0, 9), (1, 2), (3, 4)],
        "spans that overlap one span need not overlap each other",
    )
    try_out([(0, 2), (1, 3), (2, 4), (5, 6)], "the example: draw the four spans")
    try_out([(4, 5), (0, 3), (1, 2)], "spans may come in any order")
    try_out([(0, 5), (0, 5), (0, 5)], "equal spans count one by one")
    try_out(
        [(0.2, 0.4), (0.3, 0.5)],
        "times need not be whole numbers: at which moments can the number change?",
    )

    dice = random.Random(3)
    for _ in range(200):
        starts = [dice.randint(0, 12) for _ in range(dice.randint(1, 7))]
        spans = [(start, start + dice.randint(1, 6)) for start in starts]
        try_out(spans, "draw them: at which moment are most of them open?")


class _Recorder:
    """Work that takes 0.1 s and remembers in which thread it ran, from when to when.

    A little of it is CPU time, the same in each call: who compares CPU time finds 1.
    """

    def __init__(self, one_at_a_time: bool):
        self.calls: list[tuple[int, float, float]] = []
        self.lock = Lock() if one_at_a_time else None

    def work(self) -> None:
        start = perf_counter()
        if self.lock:
            with self.lock:  # as if it were the GIL
                sleep(0.095)
        else:
            sleep(0.095)
        cpu = thread_time()
        while thread_time() < cpu + 0.005:
            pass
        self.calls.append((get_ident(), start, perf_counter()))

    def alone(self) -> int:
        """How many calls ran while no other did."""
        return sum(
            all(
                end <= s or e <= start
                for _, s, e in self.calls
                if (s, e) != (start, end)
            )
            for _, start, end in self.calls
        )


@exercise("03-gain", seconds=20)
def check_gain(gain):
    for one_at_a_time, low, high in [(False, 1.5, 2.6), (True, 0.6, 1.4)]:
        for _ in range(3):  # a busy machine may disturb one try, hardly three
            recorder = _Recorder(one_at_a_time)
            got = gain(recorder.work)
            if _is_number(got) and low < got < high:
                break
        else:
            _explain_gain(recorder, got, one_at_a_time)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _explain_gain(recorder: _Recorder, got: object, one_at_a_time: bool) -> None:
    """Say what is wrong with a gain of about 2 (or about 1) that was not found."""
    tried = "gain(work) with work that sleeps for 0.1 s"
    if one_at_a_time:
        tried += " while it holds a lock, so that threads gain nothing"
    expect(_is_number(got), tried, got, "gain should return one number: a ratio")
    sleep(0.25)  # threads that nobody waited for end now
    alone, together = recorder.alone(), len(recorder.calls) - recorder.alone()
    expect(len(recorder.calls) > 0, tried, got, "work was never called")
    expect(
        together >= 2,
        tried,
        got,
        f"work was called {len(recorder.calls)} times, and never twice at the "
        f"same time. When does each thread start, and where do you wait for it? "
        f"Or did you write `work()` as the target?",
    )
    expect(
        alone >= 2,
        tried,
        got,
        f"one by one, work was done {alone} times, and in threads {together} times: "
        f"compare the same amount of work",
    )
    expect(
        got < 10,
        tried,
        got,
        "the clock of the threads stopped before the threads had ended: starting "
        "them is quick, their work is not",
    )
    expect(
        one_at_a_time or not 0.35 < got < 0.7,
        tried,
        got,
        "above 1 means that threads are faster: which time belongs above the line?",
    )
    expect(
        one_at_a_time,
        tried,
        got,
        "this should be about 2: which of the two clocks runs while work sleeps?",
    )
    expect(
        False,
        tried,
        got,
        "this should be about 1: do you compare wall time, and all of it?",
    )


SIX = {
    "wait": (True, "sleep has no use for the GIL, nor for a core, while it waits"),
    "loop": (False, "every step of it is Python code, and that needs the GIL"),
    "sort": (False, "it is C code, but what does it compare? Those are Python objects"),
    "checksum": (
        True,
        "it reads plain bytes in C and touches no Python object meanwhile",
    ),
    "large product": (True, "millions of plain numbers are multiplied for each call"),
    "small products": (
        False,
        "a product of 4 x 4 numbers is over in no time. What takes the rest of it, and "
        "does that need the GIL?",
    ),
}


@exercise("03-six")
def check_six(gainers):
    expect(
        isinstance(gainers, set | frozenset | list | tuple)
        and all(isinstance(name, str) for name in gainers),
        tried="gainers",
        got=gainers,
        think='a set of names is written {"loop", "sort"}',
    )
    unknown = sorted(set(gainers) - set(SIX))
    expect(
        not unknown,
        tried=f"the names {', '.join(unknown)}",
        got="none of the six",
        think=f"the six are {', '.join(SIX)}",
    )
    wrong = [name for name, (gains, _) in SIX.items() if (name in gainers) != gains]
    expect(
        not wrong,
        tried=f"your {len(SIX)} predictions",
        got=f"{len(SIX) - len(wrong)} of them are right",
        think=f'look at "{wrong[0]}" again: {SIX[wrong[0]][1]}' if wrong else "",
    )


class Page(NamedTuple):
    """What the check's `fetch` returns; it knows when it was on its way."""

    name: str
    asked: float
    arrived: float


class Result(NamedTuple):
    """What the check's `compute` returns."""

    page: Page
    began: float


def _fetch(name: str) -> Page:
    """The first page is the slowest: the last one asked for arrives first."""
    asked = perf_counter()
    sleep({"a": 0.6, "b": 0.5, "c": 0.4, "d": 0.3, "e": 0.2}[name])
    return Page(name, asked, perf_counter())


def _compute(page: Page) -> Result:
    began = perf_counter()
    sum(step * step for step in range(200_000))
    return Result(page, began)


@exercise("03-fetch", seconds=10)
def check_fetch(process_all):
    names = list("abcde")
    tried = f"process_all({names}, fetch, compute)"
    fetched = []

    def fetch(name: str) -> Page:
        fetched.append(name)
        return _fetch(name)

    who = "each name is processed once: which name did each thread use?"
    try:
        results = process_all(list(names), fetch, _compute)
    except Exception:
        if len(set(fetched)) < len(fetched):
            raise NotYet(tried, f"calls of fetch for {fetched}", who) from None
        raise
    shown = _names_of(results)
    expect(
        shown is not None and len(shown) == len(names),
        tried,
        _plain(results, shown),
        "a list with one result of compute for each name: is every thread done?",
    )
    expect(
        sorted(shown) == names,
        tried,
        f"results for {shown}",
        who,
    )
    expect(
        shown == names,
        tried,
        f"results for {shown}",
        "results in the order of the names, not in the order in which pages arrive",
    )
    expect(
        len(fetched) <= len(names),
        tried,
        f"{len(fetched)} calls of fetch",
        "each page is fetched once",
    )
    pages = [result.page for result in results]
    at_once = _most_open([(page.asked, page.arrived) for page in pages])
    if at_once < len(names):
        raise TooSlow(
            tried,
            f"at most {at_once} of {len(names)} pages on their way at once",
            "waiting costs no core: who keeps the next page from being asked for?",
        )
    last = max(page.arrived for page in pages)
    if min(result.began for result in results) >= last:
        raise TooSlow(
            tried,
            "the first computation began after the last page had arrived",
            "what could be done while the slowest page is still on its way?",
        )
    got = process_all([], fetch, _compute)
    expect(
        _is_empty(got),
        "process_all([], fetch, compute)",
        got,
        "no names, no results: an empty list",
    )


def _names_of(results: object) -> list[str] | None:
    """The names in the order of the results, or None if these are not results."""
    if isinstance(results, list | tuple) and all(type(r) is Result for r in results):
        return [result.page.name for result in results]
    return None


def _plain(results: object, shown: list[str] | None) -> object:
    return results if shown is None else f"results for {shown}"


def _is_empty(got: object) -> bool:
    return isinstance(got, list | tuple) and len(got) == 0
