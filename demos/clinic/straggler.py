"""Four ranks train, and one of them is late at every step: which one, and with what?

Run:      python demos/clinic/straggler.py
Look for: in the picture all ranks are in step, however late one of them is. Of the
          seconds that each rank reports, those of waiting give the late one away: it
          waits least. What it does for longer than the others is what makes it late.
          (Loading and computing are naps, so the picture is simulated.)
Try:      --late 0. Then nobody is to blame, and what is left of waiting is noise.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, sleep

import torch
import torch.distributed as dist

from sidebyside import Timeline, at_least, between, device, run_ranks, span
from sidebyside.programs import run_program

RANKS, LOAD, COMPUTE = 4, 0.01, 0.04  # seconds of each step


@contextmanager
def timed(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """A span on the timeline, whose seconds are added up as well."""
    began = perf_counter()
    with span(name):
        yield
    seconds[name] += perf_counter() - began


def train_and_report(straggler: int, late: float, steps: int = 5) -> dict[str, float]:
    """Runs in each rank: the seconds that it loaded, computed and waited."""
    seconds = dict.fromkeys(("load", "compute", "wait"), 0.0)
    gradient = torch.ones(64, device=device())
    dist.barrier()
    for _ in range(steps):
        with timed("load", seconds):
            sleep(LOAD + late * (dist.get_rank() == straggler))
        with timed("compute", seconds):
            sleep(COMPUTE)
        with timed("wait", seconds):
            dist.all_reduce(gradient)
            gradient[0].item()  # on a GPU it is only now that Python waits
    return seconds


def print_reports(reports: list[dict[str, float]]) -> None:
    """A line for each rank: milliseconds of each kind."""
    for rank, seconds in enumerate(reports):
        parts = [f"{name} {1000 * time:4.0f} ms" for name, time in seconds.items()]
        print(f"rank {rank}: {', '.join(parts)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--straggler", type=at_least(0, RANKS - 1), default=2)
    parser.add_argument("--late", type=between(0, 500), default=50, help="ms per step")
    parser.add_argument("--steps", type=at_least(1, 40), default=5)
    args = parser.parse_args()
    work = train_and_report, args.straggler, args.late / 1000, args.steps
    with Timeline() as timeline:
        reports = run_ranks(*work, world_size=RANKS)
    print(timeline.text(), end="\n\n")
    print_reports(reports)


if __name__ == "__main__":
    run_program(main)
