"""Customers at counters: a queue on a clock that is only counted."""

from queue import SimpleQueue
from threading import Event, Thread
from time import sleep

from sidebyside import Timeline, span


def serve_customers(
    customers: int = 8, counters: int = 1, seconds: float = 0.1, opening: float = 0
) -> Timeline:
    """One queue before all counters: who is free serves the next, for `seconds`.

    Counter 1 opens the shop first, if that takes any time; the others wait for it.
    """
    queue, open_ = SimpleQueue(), Event()
    for customer in range(1, customers + 1):
        queue.put(customer)
    for _ in range(counters):
        queue.put(None)  # no more customers: a counter goes home

    def serve_at(counter: int) -> None:
        if counter == 1:
            if opening:
                with span("open the shop"):
                    sleep(opening)
            open_.set()
        open_.wait()
        while (customer := queue.get()) is not None:
            with span(f"customer {customer}"):
                sleep(seconds)

    with Timeline() as timeline:
        crew = [
            Thread(target=serve_at, args=(counter,), name=f"counter {counter}")
            for counter in range(1, counters + 1)
        ]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
    return timeline


def queue_took(timeline: Timeline) -> float:
    """Of the simulated queue: seconds from the first start to the last end."""
    spans = timeline.spans
    return max(s.end for s in spans) - min(s.start for s in spans)
