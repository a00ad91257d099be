"""Serve eight customers at one counter, and at more.

Run:      python demos/performance/queue_simulation.py --counters 3
Look for: with two counters the queue is gone in half the time, though each customer
          stands at a counter for as long as before. With three the gain is below 3:
          eight is no multiple of three. A customer is a sleep of known
          length, so the picture is the same on any machine (simulated).
Try:      --counters 16. Who is served at the ninth?
          --opening 0.4. Somebody must open the shop first, and no counter helps.
"""

from parallel_by_hand.performance.queue_simulation import queue_took, serve_customers
from sidebyside import at_least, positive_float, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--counters", type=at_least(1, 50), default=2)
    add("--opening", type=positive_float, default=0, help="seconds to open the shop")
    args = parser.parse_args()

    times = []
    for counters in sorted({1, args.counters}):
        if times:
            print()
        print(f"counters: {counters}", flush=True)
        timeline = serve_customers(8, counters, 0.2, args.opening)
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
