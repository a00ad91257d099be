"""Let threads sleep one by one, then all at once.

Run:      python demos/gil/sleeping_threads.py --threads 4 --seconds 0.5
Look for: four threads that sleep half a second each are done after half a second. A
          thread that waits holds no core and no GIL, so the others need not wait.
          The sleeping took next to no CPU time.
Try:      --threads 500. Would you start 500 processes to wait for 500 web pages?
"""

from threading import Thread
from time import process_time, sleep

from sidebyside import (
    Timeline,
    at_least,
    positive_float,
    program_parser,
    run_program,
    span,
)

MOST_LANES = 16  # that are drawn


def doze_in_thread(seconds: float) -> None:
    """Wait, as a thread does that has asked for a web page, a file or a row."""
    with span("sleep"):
        sleep(seconds)


def doze_one_by_one(threads: int, seconds: float) -> None:
    for _ in range(threads):
        doze_in_thread(seconds)


def doze_all_at_once(threads: int, seconds: float) -> None:
    crew = [Thread(target=doze_in_thread, args=(seconds,)) for _ in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--threads", type=at_least(1, 2000), default=4)
    add("--seconds", type=positive_float, default=0.5, help="of sleep each")
    args = parser.parse_args()

    # Sleeping one by one is so slow that a few of them tell the story.
    few = min(args.threads, 4)
    print(f"{few} sleeps of {args.seconds:g} s, one by one:", flush=True)
    print_dozing(doze_one_by_one, few, args.seconds)
    print(f"{args.threads} sleeps of {args.seconds:g} s, a thread each:", flush=True)
    print_dozing(doze_all_at_once, args.threads, args.seconds)


def print_dozing(way, threads: int, seconds: float) -> None:
    """Run it, draw it, and print the time it took and the CPU time it used."""
    cpu = process_time()
    with Timeline() as timeline:
        way(threads, seconds)
    cpu = process_time() - cpu
    if len(timeline.lanes) <= MOST_LANES:
        print(timeline.text())
    took = max(s.end for s in timeline.spans) - min(s.start for s in timeline.spans)
    print(f"  took {took:.2f} s, used {cpu:.3f} s of CPU time\n")


if __name__ == "__main__":
    run_program(main)
