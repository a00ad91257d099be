"""Serve eight customers at one counter, and at more.

Run:      python demos/performance/queue_simulation.py --counters 3
Look for: with two counters the queue is gone in half the time, though each customer
          stands at a counter for as long as before. With three the gain is below 3:
          eight customers are not three times anything. A customer is a sleep of known
          length, so the picture is the same on any machine.
Try:      --counters 16. Who is served at the ninth?
          --opening 0.4. Somebody must open the shop first, and no counter helps.
"""

import argparse
from queue import SimpleQueue
from threading import Event, Thread
from time import sleep

from sidebyside import Timeline, at_least, positive_float, span
from sidebyside.programs import run_program


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
    """Seconds from the first start to the last end."""
    spans = timeline.spans
    return max(s.end for s in spans) - min(s.start for s in spans)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--customers", type=at_least(1, 50), default=8)
    add("--counters", type=at_least(1, 50), default=2)
    add("--seconds", type=positive_float, default=0.2, help="for each customer")
    add("--opening", type=positive_float, default=0, help="seconds to open the shop")
    args = parser.parse_args()

    times = []
    for counters in sorted({1, args.counters}):
        if times:
            print()
        print(f"counters: {counters}", flush=True)
        timeline = serve_customers(args.customers, counters, args.seconds, args.opening)
        times.append(queue_took(timeline))
        speedup = times[0] / times[-1]
        print(timeline.text())
        if idle := counters - len(timeline.lanes):
            print(f"{idle} of {counters} counters did nothing, and are not shown")
        print(
            f"took {times[-1]:.2f} s, speedup {speedup:.2f} ×,"
            f" efficiency {100 * speedup / counters:.0f} %"
        )


if __name__ == "__main__":
    run_program(main)
