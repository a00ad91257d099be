"""Answers to the exercises of lesson 03 that people give: wrong, and unusual."""

import heapq
from concurrent.futures import ThreadPoolExecutor, as_completed
from fractions import Fraction
from itertools import pairwise
from statistics import median
from threading import Lock, Thread
from time import perf_counter, process_time, time

import numpy as np

from lessons.source.sample_answers import right, wrong

# 03-overlap


@wrong(
    "03-overlap",
    advice="still open at 1",
    note="They sort starts before ends of the same time.",
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
    note="They overlook that spans may meet it at different times.",
)
def counts_all_that_meet_one_span(spans):
    return max(sum(s < end and start < e for s, e in spans) for start, end in spans)


@wrong(
    "03-overlap",
    advice="at which moment are more than two open",
    note="They compare neighbours only, and add up overlaps of different moments.",
)
def counts_overlapping_neighbours(spans):
    spans = sorted(spans)
    return 1 + sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


@wrong(
    "03-overlap",
    advice="one is open at a time",
    note="They count the spans, not those that are open together.",
)
def returns_how_many(spans):
    return len(spans)


@wrong(
    "03-overlap",
    advice="at which moments do you count",
    note="They think that most spans are open in the middle of one of them.",
)
def looks_at_the_middle_of_each(spans):
    middles = [(start + end) / 2 for start, end in spans]
    return max(sum(s <= m < e for s, e in spans) for m in middles)


@wrong(
    "03-overlap",
    advice="two that start at the same moment",
    note="They use a dictionary, which keeps only the last change of each moment.",
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
    start, end = np.array(spans, dtype=float).T
    return ((start[:, None] <= start) & (start < end[:, None])).sum(axis=0).max()


# 03-gain


def one_by_one(work, clock=perf_counter):
    start = clock()
    work()
    work()
    return clock() - start


def in_two_threads(work, join=Thread.join, clock=perf_counter):
    threads = [Thread(target=work) for _ in range(2)]
    start = clock()
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    return clock() - start


@wrong(
    "03-gain",
    advice="has every thread ended",
    note="They read the clock without a join: the most common slip: a gain of 1000s.",
)
def stops_before_the_threads_end(work):
    return one_by_one(work) / in_two_threads(work, join=bool)


@wrong(
    "03-gain",
    advice="Does your clock run while work waits",
    note="They take the clock that does not run while work waits.",
)
def compares_cpu_time(work):
    return one_by_one(work, process_time) / in_two_threads(work, clock=process_time)


@wrong(
    "03-gain",
    advice="has the first one ended",
    note="They call start() and join() in the same loop: the threads run one by one.",
)
def joins_at_once(work):
    def in_a_thread():
        thread = Thread(target=work)
        thread.start()
        thread.join()

    return one_by_one(work) / one_by_one(in_a_thread)


@wrong(
    "03-gain",
    advice="what is the target",
    note="They write Thread(target=work()): the main thread does the work at once.",
)
def calls_the_work_instead_of_passing_it(work):
    serial, start = one_by_one(work), perf_counter()
    for thread in [Thread(target=work()) for _ in range(2)]:
        thread.start()
        thread.join()
    return serial / (perf_counter() - start)


@wrong(
    "03-gain",
    advice="same amount of work",
    note="They forget that each way does the work twice.",
)
def compares_one_call_with_two(work):
    start = perf_counter()
    work()
    return (perf_counter() - start) / in_two_threads(work)


@wrong(
    "03-gain",
    advice="What belongs above",
    note="They divide the other way round, so that faster threads give less than 1.",
)
def turns_the_ratio_round(work):
    return in_two_threads(work) / one_by_one(work)


@right("03-gain")
def the_threads_are_timed_first(work):
    """Only the wall clock of the day, and a fraction."""
    threads = Fraction(in_two_threads(work, clock=time))
    return Fraction(one_by_one(work, time)) / threads


@right("03-gain")
def the_median_of_three(work):
    work()  # warm
    return np.float32(median(one_by_one(work) / in_two_threads(work) for _ in range(3)))


# 03-six


wrong(
    "03-six",
    advice='"small products" again',
    note="They overlook that a small product releases the GIL for a microsecond only.",
    name="every_product",
)({"wait", "checksum", "large product", "small products"})


wrong(
    "03-six",
    advice='"sort" again',
    note="They think that C code releases the GIL by itself.",
    name="all_c_code",
)({"wait", "sort", "checksum", "large product", "small products"})


wrong(
    "03-six",
    advice='"checksum" again',
    note="They have read that threads are for I/O only.",
    name="only_waiting",
)({"wait"})


wrong(
    "03-six",
    advice='"loop" again',
    note="They take a thread for a core.",
    name="everything",
)({"wait", "loop", "sort", "checksum", "large product", "small products"})


wrong(
    "03-six",
    advice='"wait" again',
    note="They have read that Python threads never help.",
    name="nothing",
)(set())


wrong(
    "03-six",
    advice="those that gain, or the others",
    note="They have read the question the other way round.",
    name="those_that_do_not",
)({"loop", "sort", "small products"})


right("03-six", name="a_list")(["large product", "wait", "checksum"])


right("03-six", name="keys")({"checksum": 2, "wait": 2, "large product": 2}.keys())


# 03-fetch


@wrong(
    "03-fetch",
    advice="in the midst of the others",
    note="They let the fetches overlap, but no computation overlaps a fetch: draw it.",
    state="TOO SLOW",
)
def computes_when_all_have_arrived(names, fetch, compute):
    with ThreadPoolExecutor(len(names)) as pool:
        pages = list(pool.map(fetch, names))
    return [compute(page) for page in pages]


@wrong(
    "03-fetch",
    advice="of 300 pages",
    note="They rely on the pool's own number of threads, which is 32 at most.",
    state="TOO SLOW",
)
def as_many_threads_as_the_library_likes(names, fetch, compute):
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


@wrong(
    "03-fetch",
    advice="at most 1 of 3",
    note="They keep the program of the exercise's first line.",
    state="TOO SLOW",
)
def one_page_after_another(names, fetch, compute):
    return [compute(fetch(name)) for name in names]


@wrong(
    "03-fetch",
    advice="the order: that of the names",
    note="They overlook that as_completed gives pages as they arrive.",
)
def in_order_of_arrival(names, fetch, compute):
    with ThreadPoolExecutor(len(names)) as pool:
        pages = [pool.submit(fetch, name) for name in names]
        return [compute(page.result()) for page in as_completed(pages)]


@wrong(
    "03-fetch",
    advice="is every thread done",
    note="They return the list while its threads still work.",
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
    advice="would have to happen",
    note="They hold the lock and wait for threads that want it.",
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
