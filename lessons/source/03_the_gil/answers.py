"""Answers to the exercises of lesson 03 that people give: wrong, and unusual."""

import heapq
import timeit
from concurrent.futures import ThreadPoolExecutor, as_completed
from fractions import Fraction
from itertools import pairwise
from statistics import median
from threading import Lock, Thread
from time import perf_counter, process_time, sleep, time

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
    return max(
        (sum(s < end and start < e for s, e in spans) for start, end in spans),
        default=0,
    )


@wrong(
    "03-overlap",
    advice="no span at all|must they",
    note="They compare neighbours only, and add up overlaps of different moments.",
)
def counts_overlapping_neighbours(spans):
    spans = sorted(spans)
    return 1 + sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


@wrong(
    "03-overlap",
    advice="ValueError|what this line does",
    note="They overlook the empty list: max() of nothing raises an exception.",
)
def fails_without_spans(spans):
    return max(sum(s <= start < e for s, e in spans) for start, _ in spans)


@wrong(
    "03-overlap",
    advice="one is open at a time",
    note="They count the spans, not those that are open together.",
)
def returns_how_many(spans):
    return len(spans)


@wrong(
    "03-overlap",
    advice="at which moments can the number change",
    note="They look at a grid of moments; times may lie between any two of them.",
)
def looks_at_every_tenth(spans):
    moments = [tenth / 10 for tenth in range(-200, 200)]
    return max(sum(s <= moment < e for s, e in spans) for moment in moments)


@wrong(
    "03-overlap",
    advice="has become .*who else uses",
    note="They call sort(), which changes the caller's list; sorted() makes a new one.",
)
def sorts_the_list_of_its_caller(spans):
    spans.sort()
    return max((sum(s <= start < e for s, e in spans) for start, _ in spans), default=0)


@wrong(
    "03-overlap",
    advice="at which moments do you count",
    note="They think that most spans are open in the middle of one of them.",
)
def looks_at_the_middle_of_each(spans):
    middles = [(start + end) / 2 for start, end in spans]
    return max((sum(s <= m < e for s, e in spans) for m in middles), default=0)


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


@wrong(
    "03-gain",
    advice="has the first one ended",
    note="They call start() and join() in the same loop: the threads run one by one.",
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
    advice="what is the target",
    note="They write Thread(target=work()): the main thread does the work at once.",
)
def calls_the_work_instead_of_passing_it(work):
    start = perf_counter()
    threads = [Thread(target=work()) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return one_by_one(work) / (perf_counter() - start)


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
    advice="same amount of work",
    note="They forget that each way does the work twice.",
)
def compares_one_call_with_two(work):
    start = perf_counter()
    work()
    return (perf_counter() - start) / in_two_threads(work)


@wrong(
    "03-gain",
    advice="has every thread ended",
    note="They read the clock without a join: the most common slip: a gain of 1000s.",
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
    note="They divide the other way round, so that faster threads give less than 1.",
)
def turns_the_ratio_round(work):
    return in_two_threads(work) / one_by_one(work)


@wrong(
    "03-gain",
    advice="what do you make of them",
    note="They think that threads cannot be slower than one by one.",
)
def never_below_one(work):
    return max(1, one_by_one(work) / in_two_threads(work))


@wrong(
    "03-gain",
    advice="which of the two",
    note="They take the clock that does not run while work waits.",
)
def compares_cpu_time(work):
    start = process_time()
    one_by_one(work)
    middle = process_time()
    in_two_threads(work)
    return (middle - start) / (process_time() - middle)


@wrong(
    "03-gain",
    advice="has every thread ended",
    note="They think that the second thread to start is the second to end.",
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
    advice="the number of threads",
    note="They start a thread more, and so do more work than one by one.",
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


# 03-six


wrong(
    "03-six",
    advice='"checksum" again',
    note="They have read that threads are for I/O only.",
    name="only_waiting",
)({"wait"})


wrong(
    "03-six",
    advice='"sort" again',
    note="They think that C code releases the GIL by itself.",
    name="all_c_code",
)({"wait", "sort", "checksum", "large product", "small products"})


wrong(
    "03-six",
    advice='"small products" again',
    note="They overlook that a small product releases the GIL for a microsecond only.",
    name="every_product",
)({"wait", "checksum", "large product", "small products"})


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
    advice="the names: wait, loop",
    note="They write a name that is none of the six.",
    name="a_name_that_is_not_there",
)({"wait", "checksum", "product"})


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
    advice="at most 1 of 3",
    note="They keep the program of the exercise's first line.",
    state="TOO SLOW",
)
def one_page_after_another(names, fetch, compute):
    return [compute(fetch(name)) for name in names]


@wrong(
    "03-fetch",
    advice="in the midst of the others",
    note="They let the fetches overlap, but no computation overlaps a fetch: draw it.",
    state="TOO SLOW",
)
def computes_when_all_have_arrived(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        pages = list(pool.map(fetch, names))
    return [compute(page) for page in pages]


@wrong(
    "03-fetch",
    advice="the order: that of the names",
    note="They overlook that as_completed gives pages as they arrive.",
)
def in_order_of_arrival(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
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
    advice="no names, no results",
    note="They overlook the empty list: a pool of 0 threads is not allowed.",
)
def fails_without_names(names, fetch, compute):
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


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


@wrong(
    "03-fetch",
    advice="KeyError",
    note="They overlook that a function looks its variables up when it runs: then the "
    "loop is over. Pass the name with args=, or as a default value.",
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
    advice="of 300 pages",
    note="They rely on the pool's own number of threads, which is 32 at most.",
    state="TOO SLOW",
)
def as_many_threads_as_the_library_likes(names, fetch, compute):
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


@wrong(
    "03-fetch",
    advice="who waits for what",
    note="They wait for the first name while another page has arrived.",
    state="TOO SLOW",
)
def computes_in_the_order_of_the_names(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        pages = [pool.submit(fetch, name) for name in names]
        return [compute(page.result()) for page in pages]


@wrong(
    "03-fetch",
    advice="6 calls of compute",
    note="They call compute once more, often for a message on the way.",
)
def computes_twice(names, fetch, compute):
    def process(name):
        page = fetch(name)
        compute(page)
        return compute(page)

    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return list(pool.map(process, names))


@wrong(
    "03-fetch",
    advice="in the list twice",
    note="They keep the results in a dictionary, which has one entry for equal names.",
)
def keeps_results_by_name(names, fetch, compute):
    with ThreadPoolExecutor(len(names) or 1) as pool:
        found = {n: pool.submit(lambda n=n: compute(fetch(n))) for n in names}
        return [future.result() for future in found.values()]


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


@right("03-fetch")
def looks_every_millisecond(names, fetch, compute):
    found = {}
    with ThreadPoolExecutor(len(names) + 1) as pool:
        pages = [pool.submit(fetch, name) for name in names]
        while len(found) < len(pages):
            for place, page in enumerate(pages):
                if page.done() and place not in found:
                    found[place] = compute(page.result())
            sleep(0.001)
    return [found[place] for place in range(len(names))]
