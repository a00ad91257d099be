"""Answers to the exercises of lesson 03 that people give: wrong, and unusual."""

import heapq
import timeit
from concurrent.futures import (
    FIRST_COMPLETED,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import isclose
from operator import call
from statistics import median
from threading import Lock, Thread
from time import perf_counter, process_time, sleep, time

import numpy as np

from lessons.source.sample_answers import right, wrong
from sidebyside import Timeline

# 03-overlap


@wrong(
    "03-overlap",
    advice="still open at 1",
    note="Sorts starts before ends of the same time.",
)
def counts_touching_spans(spans):
    events = [(start, 0, 1) for start, _ in spans] + [(end, 1, -1) for _, end in spans]
    most = now_open = 0
    for _, _, change in sorted(events):
        now_open += change
        most = max(most, now_open)
    return most


@wrong(
    "03-overlap",
    advice="must they overlap each other",
    note="They may meet it at different times.",
)
def counts_all_that_meet_one_span(spans):
    return max(
        (sum(s < end and start < e for s, e in spans) for start, end in spans),
        default=0,
    )


@wrong(
    "03-overlap",
    advice="no span at all|must they",
    note="Compares neighbours only, and adds up overlaps of different moments.",
)
def counts_overlapping_neighbours(spans):
    spans = sorted(spans)
    return 1 + sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


@wrong(
    "03-overlap",
    advice="ValueError|what this line does",
    note="max() of nothing raises. What is the answer there?",
)
def fails_without_spans(spans):
    return max(sum(s <= start < e for s, e in spans) for start, _ in spans)


@wrong(
    "03-overlap",
    advice="one is open at a time",
    note="Counts the spans, not those that are open together.",
)
def returns_how_many(spans):
    return len(spans)


@wrong("03-overlap", advice="one number")
def returns_two_numbers(spans):
    most = max((sum(s <= start < e for s, e in spans) for start, _ in spans), default=0)
    return most, most


@wrong(
    "03-overlap",
    advice="not whole numbers",
    note="Samples at 0, 1, 2 …: true for all examples with whole numbers.",
)
def looks_at_whole_numbers_only(spans):
    return max(sum(s <= moment < e for s, e in spans) for moment in range(100))


@wrong(
    "03-overlap",
    advice="at which moments can the number change",
    note="A finer grid is a grid.",
)
def looks_at_every_tenth(spans):
    moments = [tenth / 10 for tenth in range(-200, 200)]
    return max(sum(s <= moment < e for s, e in spans) for moment in moments)


@wrong(
    "03-overlap",
    advice="spans of microseconds",
    note="What takes microseconds has no length any more.",
)
def rounds_to_milliseconds(spans):
    return counts_with_numpy([(round(start, 3), round(end, 3)) for start, end in spans])


@wrong(
    "03-overlap",
    advice="still open at 0",
    note="0 is a time like others, and `or` takes it for nothing.",
)
def takes_0_for_no_end(spans):
    ends = [(end or float("inf"), -1) for _, end in spans]
    most = now_open = 0
    for _, change in sorted([(start, 1) for start, _ in spans] + ends):
        now_open += change
        most = max(most, now_open)
    return most


@wrong(
    "03-overlap",
    advice="where does your count begin",
    note="A clock may have begun anywhere.",
)
def starts_at_0(spans):
    events = sorted([(start, 1) for start, _ in spans] + [(e, -1) for _, e in spans])
    most = now_open = 0
    for time_of_event, change in events:
        if time_of_event >= 0:
            now_open += change
            most = max(most, now_open)
    return most


@wrong(
    "03-overlap",
    advice="has become .*who else uses",
    note="sort() changes the list of whoever called; sorted() makes a new one.",
)
def sorts_the_list_of_its_caller(spans):
    spans.sort()
    return max((sum(s <= start < e for s, e in spans) for start, _ in spans), default=0)


@wrong(
    "03-overlap",
    advice="keeps from its earlier calls",
    note="A default value such as [] is made once, and kept for all calls.",
    given=call,
)
class AddsToTheEventsOfEarlierCalls:
    """As with a default value `events=[]`."""

    def __init__(self):
        self.events = []

    def __call__(self, spans):
        self.events += [(start, 1) for start, _ in spans] + [(e, -1) for _, e in spans]
        most = now_open = 0
        for _, change in sorted(self.events):
            now_open += change
            most = max(most, now_open)
        return most


@wrong("03-overlap", advice="keeps from its earlier", given=call)
class KnowsTheListAgain:
    """As with a dictionary of results by `id(spans)`."""

    def __init__(self):
        self.known = {}

    def __call__(self, spans):
        if id(spans) not in self.known:
            self.known[id(spans)] = keeps_the_ends_in_a_heap(spans)
        return self.known[id(spans)]


@wrong(
    "03-overlap",
    advice="1500 spans.*RecursionError",
    note="A long list needs more calls inside each other than Python allows.",
)
def calls_itself_for_each_event(spans, now_open=0, events=None):
    if events is None:
        events = sorted(
            [(start, 1) for start, _ in spans] + [(e, -1) for _, e in spans]
        )
    if not events:
        return now_open
    now = now_open + events[0][1]
    return max(now_open, calls_itself_for_each_event(spans, now, events[1:]))


@wrong("03-overlap", advice="has become .*who else uses")
def empties_the_list(spans):
    heapq.heapify(spans)
    ends, most = [], 0
    while spans:
        start, last = heapq.heappop(spans)
        ends = [end for end in ends if end > start] + [last]
        most = max(most, len(ends))
    return most


@wrong(
    "03-overlap",
    advice="at which moments do you count",
    note="The moment when most are open need not be the middle of any.",
)
def looks_at_the_middle_of_each(spans):
    middles = [(start + end) / 2 for start, end in spans]
    return max((sum(s <= m < e for s, e in spans) for m in middles), default=0)


@wrong(
    "03-overlap",
    advice="two that start at the same moment",
    note="A dictionary has one entry for each moment: the last change stays.",
)
def keeps_one_change_for_each_moment(spans):
    changes = {}
    for start, end in spans:
        changes[start], changes[end] = 1, -1
    most = now_open = 0
    for moment in sorted(changes):
        now_open += changes[moment]
        most = max(most, now_open)
    return most


@right("03-overlap")
def keeps_the_ends_in_a_heap(spans):
    ends, most = [], 0
    for start, end in sorted(spans):
        while ends and ends[0] <= start:
            heapq.heappop(ends)
        heapq.heappush(ends, end)
        most = max(most, len(ends))
    return most


@right("03-overlap")
def counts_with_numpy(spans):
    if not spans:
        return np.int64(0)
    start, end = np.array(spans, dtype=float).T
    return ((start[:, None] <= start) & (start < end[:, None])).sum(axis=0).max()


# 03-gain


def one_by_one(work) -> float:
    start = perf_counter()
    work()
    work()
    return perf_counter() - start


def in_two_threads(work) -> float:
    threads = [Thread(target=work) for _ in range(2)]
    start = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return perf_counter() - start


@wrong(
    "03-gain",
    advice="has every thread ended|had the first two ended",
    note="Starts threads and does not wait: they run on into the next timing.",
)
def forgets_to_join(work):
    start = perf_counter()
    for _ in range(2):
        Thread(target=work).start()
    return one_by_one(work) / (perf_counter() - start)


@wrong(
    "03-gain",
    advice="never two at the same time.*has the one before ended",
    note="start() and join() in the same loop: threads one by one.",
)
def joins_at_once(work):
    start = perf_counter()
    for _ in range(2):
        thread = Thread(target=work)
        thread.start()
        thread.join()
    return (perf_counter() - start) / one_by_one(work)


@wrong(
    "03-gain",
    advice=r"write `work\(\)` as the target",
    note="Thread(target=work()) runs the work at once, in the main thread.",
)
def calls_the_work_instead_of_passing_it(work):
    start = perf_counter()
    threads = [Thread(target=work()) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return one_by_one(work) / (perf_counter() - start)


@wrong(
    "03-gain",
    advice="same amount of work",
    note="One call against two: sleeping threads seem no help.",
)
def compares_one_call_with_two(work):
    start = perf_counter()
    work()
    return (perf_counter() - start) / in_two_threads(work)


@wrong(
    "03-gain",
    advice="has every thread ended",
    note="The most common one: a gain of thousands.",
)
def stops_before_the_threads_end(work):
    serial = one_by_one(work)
    threads = [Thread(target=work) for _ in range(2)]
    start = perf_counter()
    for thread in threads:
        thread.start()
    return serial / (perf_counter() - start)


@wrong(
    "03-gain",
    advice="What belongs above",
    note="Below 1 although threads are faster: seconds, not speed.",
)
def turns_the_ratio_round(work):
    return in_two_threads(work) / one_by_one(work)


@wrong(
    "03-gain",
    advice="the number as it comes out",
    note="Threads can be slower than one by one.",
)
def never_below_one(work):
    return max(1, one_by_one(work) / in_two_threads(work))


@wrong(
    "03-gain",
    advice="the two clocks",
    note="CPU time does not shrink when work is spread over threads.",
)
def compares_cpu_time(work):
    start = process_time()
    one_by_one(work)
    middle = process_time()
    in_two_threads(work)
    return (middle - start) / (process_time() - middle)


@wrong("03-gain", advice="one number", note="Measures, and forgets the return.")
def returns_nothing(work):
    one_by_one(work)
    in_two_threads(work)


@wrong(
    "03-gain",
    advice="a difference of seconds",
    note="How much less is not how many times as fast.",
)
def returns_the_seconds_saved(work):
    return one_by_one(work) - in_two_threads(work)


@wrong(
    "03-gain",
    advice="is something rounded",
    note="As if a gain were 1 or 2. Most are in between.",
)
def rounds_to_a_whole_number(work):
    return round(one_by_one(work) / in_two_threads(work))


@wrong(
    "03-gain",
    advice="your clock|what does it count",
    note="Right for work that waits, where both end together.",
)
def stops_when_the_first_thread_ends(work):
    serial, (first, second) = one_by_one(work), [Thread(target=work) for _ in range(2)]
    start = perf_counter()
    first.start()
    second.start()
    first.join()
    end = perf_counter()
    second.join()
    return serial / (end - start)


@wrong(
    "03-gain",
    advice="has every thread ended",
    note="The second to start need not be the second to end.",
)
def joins_the_last_thread_only(work):
    serial, threads = one_by_one(work), [Thread(target=work) for _ in range(2)]
    start = perf_counter()
    for thread in threads:
        thread.start()
    thread.join()
    return serial / (perf_counter() - start)


@wrong(
    "03-gain",
    advice="the moments|the two clocks|until when|what is returned",
    note="A span may stand around a part of the work, and the rest is lost.",
)
def from_spans_if_there_are_any(work):
    def seconds(call) -> float:
        start = perf_counter()
        with Timeline() as timeline:
            call(work)
        end, spans = perf_counter(), timeline.spans
        if not spans:
            return end - start
        return max(s.end for s in spans) - min(s.start for s in spans)

    return seconds(one_by_one) / seconds(in_two_threads)


@wrong("03-gain", advice="what is made of the two", note="Twice as fast is 2, not 100.")
def returns_percent(work):
    from time import perf_counter

    start = perf_counter()
    work()
    work()
    middle = perf_counter()
    in_two_threads(work)
    end = perf_counter()
    return 100 * ((middle - start) / (end - middle) - 1)


@wrong(
    "03-gain",
    advice="which one does the second call",
    note="A thread more, and still one call after the other.",
)
def one_thread_does_both(work):
    serial, start = one_by_one(work), perf_counter()
    thread = Thread(target=one_by_one, args=(work,))
    thread.start()
    thread.join()
    return serial / (perf_counter() - start)


@wrong(
    "03-gain",
    advice="the same amount of work|what is returned",
    note="Four calls in threads: twice the work of one by one.",
)
def each_thread_does_both(work):
    from time import perf_counter

    start = perf_counter()
    one_by_one(work)
    middle = perf_counter()
    in_two_threads(lambda: (work(), work()))
    return 2 * (middle - start) / (perf_counter() - middle)


@wrong(
    "03-gain",
    advice="the number of threads",
    note="More threads, and more work than one by one.",
)
def three_threads(work):
    serial, threads = one_by_one(work), [Thread(target=work) for _ in range(3)]
    start = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return serial / (perf_counter() - start)


@right("03-gain")
def the_threads_are_timed_first(work):
    """Only the wall clock of the day, and a fraction."""
    start = time()
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work), pool.submit(work)]:
            future.result()
    middle = time()
    work()
    work()
    return Fraction(time() - middle) / Fraction(middle - start)


@right("03-gain")
def the_main_thread_helps(work):
    serial, helper, start = one_by_one(work), Thread(target=work), perf_counter()
    helper.start()
    work()
    helper.join()
    return np.float32(serial / (perf_counter() - start))


@right("03-gain")
def the_median_of_three(work):
    work()  # warm
    return median(
        timeit.timeit(work, number=2) / in_two_threads(work) for _ in range(3)
    )


# 03-fetch


@wrong(
    "03-fetch",
    advice="at most 1 of 3",
    note="The program of the exercise's first line.",
    state="TOO SLOW",
)
def one_page_after_another(names, fetch, compute):
    return [compute(fetch(name)) for name in names]


@wrong(
    "03-fetch",
    advice="at most 1 of 3",
    note="Threads, but one after the other.",
    state="TOO SLOW",
)
def starts_and_joins_in_one_loop(names, fetch, compute):
    results = []
    for name in names:
        thread = Thread(target=lambda name=name: results.append(compute(fetch(name))))
        thread.start()
        thread.join()
    return results


@wrong(
    "03-fetch",
    advice="in the midst of the others",
    note="Fetches overlap, but no computation overlaps a fetch: draw it.",
    state="TOO SLOW",
)
def computes_when_all_have_arrived(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        pages = list(pool.map(fetch, names))
    return [compute(page) for page in pages]


@wrong(
    "03-fetch",
    advice="at most 2 of 3",
    note="As many threads as cores: right for computing, wrong for waiting.",
    state="TOO SLOW",
)
def two_threads_only(names, fetch, compute):
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


@wrong(
    "03-fetch",
    advice="the order: that of the names",
    note="as_completed gives pages as they arrive.",
)
def in_order_of_arrival(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        pages = [pool.submit(fetch, name) for name in names]
        return [compute(page.result()) for page in as_completed(pages)]


@wrong(
    "03-fetch",
    advice="is every thread done",
    note="Returns the list while its threads still work.",
)
def forgets_to_wait(names, fetch, compute):
    results = []
    for name in names:
        Thread(
            target=lambda name=name: results.append(compute(fetch(name))), daemon=True
        ).start()
    return results


@wrong(
    "03-fetch",
    advice="ValueError|max_workers",
    note="Only for an empty list: a pool of 0 threads is not allowed.",
)
def fails_without_names(names, fetch, compute):
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


@wrong(
    "03-fetch",
    advice="would have to happen",
    note="Holds the lock and waits for threads that want it.",
    state="HUNG",
)
def waits_for_its_own_lock(names, fetch, compute):
    lock, results = Lock(), []

    def process(name):
        with lock:
            results.append(compute(fetch(name)))

    with lock, ThreadPoolExecutor(max_workers=len(names)) as pool:
        list(pool.map(process, names))
    return results


@wrong(
    "03-fetch",
    advice="is it a new one every time",
    note="A function looks its variables up when it runs: then the loop is "
    "over. Pass the name with args=, or as a default value.",
)
def sees_the_last_name_only(names, fetch, compute):
    results = {}

    def process():
        results[name] = compute(fetch(name))

    threads = []
    for name in names:  # noqa: B007 - the mistake: all threads share this name
        threads.append(Thread(target=process))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[name] for name in names]


@wrong(
    "03-fetch",
    advice="result of compute",
    note="Has fetched, and forgotten to compute.",
)
def returns_the_pages(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return list(pool.map(fetch, names))


@wrong(
    "03-fetch",
    advice="of 300 pages",
    note="A few more than there are cores, and 32 at most.",
    state="TOO SLOW",
)
def as_many_threads_as_the_library_likes(names, fetch, compute):
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


@wrong(
    "03-fetch",
    advice="who waits for what",
    note="Waits for the first name while another page has arrived.",
    state="TOO SLOW",
)
def computes_in_the_order_of_the_names(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        pages = [pool.submit(fetch, name) for name in names]
        return [compute(page.result()) for page in pages]


@wrong("03-fetch", advice="has become", note="The list belongs to the caller.")
def takes_the_names_out_of_the_list(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        futures = []
        while names:
            name = names.pop(0)
            futures.append(pool.submit(lambda name=name: compute(fetch(name))))
        return [future.result() for future in futures]


@wrong("03-fetch", advice="6 calls of compute", note="Often for a message on the way.")
def computes_twice(names, fetch, compute):
    def process(name):
        page = fetch(name)
        compute(page)
        return compute(page)

    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return list(pool.map(process, names))


@wrong(
    "03-fetch",
    advice="a list",
    note="map returns at once, with something that gives results one by one.",
)
def returns_what_map_returns(names, fetch, compute):
    pool = ThreadPoolExecutor(max(1, len(names)))
    return pool.map(lambda name: compute(fetch(name)), names)


@wrong(
    "03-fetch",
    advice="stands in the list twice",
    note="A dictionary keeps one entry for equal names; the list has both.",
)
def keeps_results_by_name(names, fetch, compute):
    with ThreadPoolExecutor(len(names) or 1) as pool:
        found = {n: pool.submit(lambda n=n: compute(fetch(n))) for n in names}
        return [future.result() for future in found.values()]


@wrong(
    "03-fetch",
    advice="may be None",
    note="None is a value like others: ask the thread whether it is done.",
    state="HUNG",
)
def takes_none_for_not_yet(names, fetch, compute):
    pages, results = dict.fromkeys(names), {}
    for name in names:
        Thread(
            target=lambda name=name: pages.update({name: fetch(name)}), daemon=True
        ).start()
    while len(results) < len(names):
        sleep(0.001)
        for name in set(names) - set(results):
            if pages[name] is not None:
                results[name] = compute(pages[name])
    return [results[name] for name in names]


@wrong(
    "03-fetch",
    advice="is it there, or is it missing",
    note="`compute` may return None, as where it only stores something.",
)
def does_again_what_is_none(names, fetch, compute):
    results = threads_with_a_place_each(names, fetch, compute)
    for place, result in enumerate(results):
        if result is None:
            results[place] = compute(fetch(names[place]))
    return results


@wrong(
    "03-fetch",
    advice="who waits for what",
    note="FIRST_COMPLETED once, and then all: as_completed goes on one by one.",
    state="TOO SLOW",
)
def waits_for_the_others_after_the_first(names, fetch, compute):
    if not names:
        return []
    with ThreadPoolExecutor(len(names)) as pool:
        pages = [pool.submit(fetch, name) for name in names]
        first, others = wait(pages, return_when=FIRST_COMPLETED)
        results = {page: compute(page.result()) for page in first}
        wait(others)
        results |= {page: compute(page.result()) for page in others}
    return [results[page] for page in pages]


@right("03-fetch")
def threads_with_a_place_each(names, fetch, compute):
    results = [None] * len(names)

    def process(place, name):
        results[place] = compute(fetch(name))

    threads = [Thread(target=process, args=pair) for pair in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@right("03-fetch")
def computes_in_the_main_thread(names, fetch, compute):
    found = {}
    with ThreadPoolExecutor(len(names) + 1) as pool:
        place_of = {pool.submit(fetch, name): n for n, name in enumerate(names)}
        for page in as_completed(place_of):
            found[place_of[page]] = compute(page.result())
    return [found[place] for place in range(len(names))]


@wrong("03-overlap", advice="nearly are")
def takes_near_times_for_equal(spans):
    ends, most = [], 0
    for start, end in sorted(spans):
        while ends and (ends[0] <= start or isclose(ends[0], start)):
            heapq.heappop(ends)
        heapq.heappush(ends, end)
        most = max(most, len(ends))
    return most


@wrong("03-gain", advice="until when")
def waits_one_second(work):
    from time import perf_counter

    pool, start = ThreadPoolExecutor(2), perf_counter()
    work()
    work()
    middle = perf_counter()
    wait([pool.submit(work) for _ in range(2)], timeout=1)
    end = perf_counter()
    pool.shutdown()
    return (middle - start) / (end - middle)


@wrong("03-gain", advice="what you keep from one call", given=call)
class RemembersWork:
    def __init__(self):
        self.known = {}

    def __call__(self, work):
        if id(work) not in self.known:
            self.known[id(work)] = work, waits_for_threads(work, Thread.join)
        return self.known[id(work)][1]


@wrong(
    "03-gain",
    advice="what you keep from one",
    note="The machine may be busier now than it was then.",
    given=call,
)
class RemembersOneByOne:
    def __init__(self):
        self.known = {}

    def __call__(self, work):
        if id(work) not in self.known:
            self.known[id(work)] = work, one_by_one(work)
        return self.known[id(work)][1] / in_two_threads(work)


def waits_for_threads(work, wait_for):
    start = perf_counter()
    work()
    work()
    middle = perf_counter()
    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        wait_for(thread)
    return (middle - start) / (perf_counter() - middle)


@wrong(
    "03-gain",
    advice="the moment when both threads end",
    note="The clock runs on until the nap is over: join() ends at once.",
)
def asks_now_and_then(work, seconds=0.3):
    from time import sleep

    def wait_for(thread):
        while thread.is_alive():
            sleep(seconds)

    return waits_for_threads(work, wait_for)


@right("03-gain")
def asks_every_millisecond(work):
    return asks_now_and_then(work, 0.001)


@wrong("03-gain", advice="between the starts of the two threads")
def starts_one_after_a_nap(work):
    from time import sleep

    serial, threads = one_by_one(work), [Thread(target=work) for _ in range(2)]
    start = perf_counter()
    for thread in threads:
        thread.start()
        sleep(0.05)
    for thread in threads:
        thread.join()
    return serial / (perf_counter() - start)


@wrong(
    "03-gain",
    advice="how your program waits for its threads",
    note="A loop that asks `is_alive()` takes turns with the two threads: for "
    "`compute` it finds 2/3.",
)
def asks_all_the_time(work):
    def wait_for(thread):
        while thread.is_alive():
            pass

    return waits_for_threads(work, wait_for)


@wrong("03-fetch", advice="who keeps the next page", state="TOO SLOW")
def a_pool_of_two_hundred(names, fetch, compute):
    if not names:
        return []
    with ThreadPoolExecutor(min(len(names), 200)) as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


@wrong(
    "03-fetch",
    advice="is every thread done",
    note="join(1) ends after a second, whether the thread has ended or not.",
)
def joins_for_a_second(names, fetch, compute, seconds=1, nap=0):
    from time import sleep

    results = [None] * len(names)

    def process(place, name):
        results[place] = compute(fetch(name))

    threads = [Thread(target=process, args=pair) for pair in enumerate(names)]
    for thread in threads:
        thread.start()
    sleep(nap)
    for thread in threads:
        thread.join(seconds)
    return results


@wrong("03-fetch", advice="what waits for its end", state="TOO SLOW")
def naps_before_it_joins(names, fetch, compute):
    return joins_for_a_second(names, fetch, compute, None, 0.5)


@wrong(
    "03-fetch",
    advice="what waits for its end",
    note="A page that arrives during the nap waits for its end.",
    state="TOO SLOW",
)
def looks_now_and_then(names, fetch, compute, seconds=0.1):
    from time import sleep

    found = {}
    with ThreadPoolExecutor(len(names) + 1) as pool:
        pages = [pool.submit(fetch, name) for name in names]
        while len(found) < len(pages):
            for place, page in enumerate(pages):
                if page.done() and place not in found:
                    found[place] = compute(page.result())
            sleep(seconds)
    return [found[place] for place in range(len(names))]


@right("03-fetch")
def looks_every_millisecond(names, fetch, compute):
    return looks_now_and_then(names, fetch, compute, 0.001)


@wrong("03-fetch", advice="keeps from its earlier calls", given=call)
class AddsToResultsOfEarlierCalls:
    def __init__(self):
        self.results = []

    def __call__(self, names, fetch, compute):
        self.results += threads_with_a_place_each(names, fetch, compute)
        return self.results


@wrong("03-fetch", advice="pages that are equal")
def computes_with_a_cache(names, fetch, compute):
    return threads_with_a_place_each(names, fetch, cache(compute))


@wrong("03-fetch", advice="a result that is None")
def leaves_out_what_is_none(names, fetch, compute):
    results = threads_with_a_place_each(names, fetch, compute)
    return [result for result in results if result is not None]


wrong(
    "03-six",
    advice='"checksum" again',
    note="Has read that threads are for I/O only.",
    name="only_waiting",
)({"wait"})
wrong(
    "03-six",
    advice='"sort" again',
    note="C code does not release the GIL by itself.",
    name="all_c_code",
)({"wait", "sort", "checksum", "large product", "small products"})
wrong(
    "03-six",
    advice='"small products" again',
    note="The GIL is released, but for a microsecond only.",
    name="every_product",
)({"wait", "checksum", "large product", "small products"})
wrong(
    "03-six",
    advice='"loop" again',
    note="Takes a thread for a core.",
    name="everything",
)({"wait", "loop", "sort", "checksum", "large product", "small products"})
wrong(
    "03-six",
    advice='"wait" again',
    note="Has read that Python threads never help.",
    name="nothing",
)(set())
wrong(
    "03-six",
    advice="the names: wait, loop",
    note="A slip of the pen.",
    name="a_name_that_is_not_there",
)({"wait", "checksum", "product"})
wrong(
    "03-six",
    advice="those that gain, or the others",
    note="Has read the question the other way round.",
    name="those_that_do_not",
)({"loop", "sort", "small products"})
wrong(
    "03-six",
    advice="a set of names",
    note="A name in place of a set of names.",
    name="one_string",
)("wait")
right("03-six", name="a_list")(["large product", "wait", "checksum"])
right("03-six", name="keys")({"checksum": 2, "wait": 2, "large product": 2}.keys())
