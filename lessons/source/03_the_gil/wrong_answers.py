"""Answers to the exercises of lesson 03 that people give, and that are not right."""

from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from threading import Lock, Thread
from time import perf_counter, process_time

from lessons.source.sample_answers import Wrong

# 03-overlap


def counts_touching_spans(spans):
    events = [(start, 0, 1) for start, _ in spans] + [(end, 1, -1) for _, end in spans]
    most = now_open = 0
    for _, _, change in sorted(events):
        now_open += change
        most = max(most, now_open)
    return most


def counts_all_that_meet_one_span(spans):
    return max(
        (sum(s < end and start < e for s, e in spans) for start, end in spans),
        default=0,
    )


def counts_overlapping_neighbours(spans):
    spans = sorted(spans)
    return 1 + sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


def fails_without_spans(spans):
    return max(sum(s <= start < e for s, e in spans) for start, _ in spans)


def returns_how_many(spans):
    return len(spans)


def looks_at_whole_numbers_only(spans):
    return max(sum(s <= moment < e for s, e in spans) for moment in range(100))


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


def forgets_to_join(work):
    start = perf_counter()
    for _ in range(2):
        Thread(target=work).start()
    return one_by_one(work) / (perf_counter() - start)


def joins_at_once(work):
    start = perf_counter()
    for _ in range(2):
        thread = Thread(target=work)
        thread.start()
        thread.join()
    return (perf_counter() - start) / one_by_one(work)


def calls_the_work_instead_of_passing_it(work):
    start = perf_counter()
    threads = [Thread(target=work()) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return one_by_one(work) / (perf_counter() - start)


def compares_one_call_with_two(work):
    start = perf_counter()
    work()
    return (perf_counter() - start) / in_two_threads(work)


def stops_before_the_threads_end(work):
    serial = one_by_one(work)
    threads = [Thread(target=work) for _ in range(2)]
    start = perf_counter()
    for thread in threads:
        thread.start()
    return serial / (perf_counter() - start)


def turns_the_ratio_round(work):
    return in_two_threads(work) / one_by_one(work)


def compares_cpu_time(work):
    start = process_time()
    one_by_one(work)
    middle = process_time()
    in_two_threads(work)
    return (middle - start) / (process_time() - middle)


def returns_nothing(work):
    one_by_one(work)
    in_two_threads(work)


# 03-fetch


def one_page_after_another(names, fetch, compute):
    return [compute(fetch(name)) for name in names]


def starts_and_joins_in_one_loop(names, fetch, compute):
    results = []
    for name in names:
        thread = Thread(target=lambda name=name: results.append(compute(fetch(name))))
        thread.start()
        thread.join()
    return results


def computes_when_all_have_arrived(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        pages = list(pool.map(fetch, names))
    return [compute(page) for page in pages]


def two_threads_only(names, fetch, compute):
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


def in_order_of_arrival(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        pages = [pool.submit(fetch, name) for name in names]
        return [compute(page.result()) for page in as_completed(pages)]


def forgets_to_wait(names, fetch, compute):
    results = []
    for name in names:
        Thread(
            target=lambda name=name: results.append(compute(fetch(name))), daemon=True
        ).start()
    return results


def fails_without_names(names, fetch, compute):
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        return list(pool.map(lambda name: compute(fetch(name)), names))


def waits_for_its_own_lock(names, fetch, compute):
    lock, results = Lock(), []

    def process(name):
        with lock:
            results.append(compute(fetch(name)))

    with lock, ThreadPoolExecutor(max_workers=5) as pool:
        list(pool.map(process, names))
    return results


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


def returns_the_pages(names, fetch, compute):
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return list(pool.map(fetch, names))


WRONG = {
    "03-overlap": [
        Wrong(
            "counts_touching_spans",
            counts_touching_spans,
            advice="no longer open at 1",
            note="Sorts starts before ends of the same time.",
        ),
        Wrong(
            "counts_all_that_meet_one_span",
            counts_all_that_meet_one_span,
            advice="need not overlap each other",
            note="They may meet it at different times.",
        ),
        Wrong(
            "counts_overlapping_neighbours",
            counts_overlapping_neighbours,
            advice="no span at all|need not",
            note="Compares neighbours only, and adds up overlaps of different moments.",
        ),
        Wrong(
            "fails_without_spans",
            fails_without_spans,
            advice="ValueError|what this line does",
            note="max() of nothing raises. What is the answer there?",
        ),
        Wrong(
            "returns_how_many",
            returns_how_many,
            advice="one is open at a time",
            note="Counts the spans, not those that are open together.",
        ),
        Wrong(
            "looks_at_whole_numbers_only",
            looks_at_whole_numbers_only,
            advice="need not be whole numbers",
            note="Samples at 0, 1, 2 …: true for all examples with whole numbers.",
        ),
    ],
    "03-gain": [
        Wrong(
            "stops_before_the_threads_end",
            stops_before_the_threads_end,
            advice="before the threads had ended",
            note="The most common one: a gain of thousands.",
        ),
        Wrong(
            "forgets_to_join",
            forgets_to_join,
            advice="before the threads|same amount|about 2",
            note="Starts threads and does not wait: they run on into the next timing.",
        ),
        Wrong(
            "joins_at_once",
            joins_at_once,
            advice="never twice at the same time",
            note="start() and join() in the same loop: threads one by one.",
        ),
        Wrong(
            "calls_the_work_instead_of_passing_it",
            calls_the_work_instead_of_passing_it,
            advice=r"write `work\(\)` as the target",
            note="Thread(target=work()) runs the work at once, in the main thread.",
        ),
        Wrong(
            "compares_one_call_with_two",
            compares_one_call_with_two,
            advice="same amount of work",
            note="One call against two: sleeping threads seem no help.",
        ),
        Wrong(
            "turns_the_ratio_round",
            turns_the_ratio_round,
            advice="above the line",
            note="Below 1 although threads are faster: seconds, not speed.",
        ),
        Wrong(
            "compares_cpu_time",
            compares_cpu_time,
            advice="which of the two clocks",
            note="CPU time does not shrink when work is spread over threads.",
        ),
        Wrong(
            "returns_nothing",
            returns_nothing,
            advice="one number",
            note="Measures, and forgets the return.",
        ),
    ],
    "03-six": [
        Wrong(
            "only_waiting",
            {"wait"},
            advice='"checksum" again',
            note="Has read that threads are for I/O only.",
        ),
        Wrong(
            "all_c_code",
            {"wait", "sort", "checksum", "large product", "small products"},
            advice='"sort" again',
            note="C code does not release the GIL by itself.",
        ),
        Wrong(
            "every_product",
            {"wait", "checksum", "large product", "small products"},
            advice='"small products" again',
            note="The GIL is released, but for a microsecond only.",
        ),
        Wrong(
            "everything",
            {"wait", "loop", "sort", "checksum", "large product", "small products"},
            advice='"loop" again',
            note="Takes a thread for a core.",
        ),
        Wrong(
            "nothing",
            set(),
            advice='"wait" again',
            note="Has read that Python threads never help.",
        ),
        Wrong(
            "a_name_that_is_not_there",
            {"wait", "checksum", "product"},
            advice="the six are",
            note="A slip of the pen.",
        ),
        Wrong(
            "one_string",
            "wait",
            advice="a set of names",
            note="A name in place of a set of names.",
        ),
    ],
    "03-fetch": [
        Wrong(
            "one_page_after_another",
            one_page_after_another,
            state="TOO SLOW",
            advice="at most 1 of 5",
            note="The program of the exercise's first line.",
        ),
        Wrong(
            "starts_and_joins_in_one_loop",
            starts_and_joins_in_one_loop,
            state="TOO SLOW",
            advice="at most 1 of 5",
            note="Threads, but one after the other.",
        ),
        Wrong(
            "computes_when_all_have_arrived",
            computes_when_all_have_arrived,
            state="TOO SLOW",
            advice="still on its way",
            note="Fetches overlap, but no computation overlaps a fetch: draw it.",
        ),
        Wrong(
            "two_threads_only",
            two_threads_only,
            state="TOO SLOW",
            advice="at most 2 of 5",
            note="As many threads as cores: right for computing, wrong for waiting.",
        ),
        Wrong(
            "in_order_of_arrival",
            in_order_of_arrival,
            advice="order of the names",
            note="as_completed gives pages as they arrive.",
        ),
        Wrong(
            "forgets_to_wait",
            forgets_to_wait,
            advice="every thread done",
            note="Returns the list while its threads still work.",
        ),
        Wrong(
            "sees_the_last_name_only",
            sees_the_last_name_only,
            advice="which name did each thread use",
            note="A function looks its variables up when it runs: then the loop is "
            "over. Pass the name with args=, or as a default value.",
        ),
        Wrong(
            "returns_the_pages",
            returns_the_pages,
            advice="result of compute",
            note="Has fetched, and forgotten to compute.",
        ),
        Wrong(
            "fails_without_names",
            fails_without_names,
            advice="ValueError|max_workers",
            note="Only for an empty list: a pool of 0 threads is not allowed.",
        ),
        Wrong(
            "waits_for_its_own_lock",
            waits_for_its_own_lock,
            state="HUNG",
            advice="would have to happen",
            note="Holds the lock and waits for threads that want it.",
        ),
    ],
}
