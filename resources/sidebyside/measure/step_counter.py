"""A process that counts when told: `python -m sidebyside.measure.step_counter`."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator


def _count_steps(seconds: float) -> float:
    """Steps per second of a pure Python loop, over about `seconds`."""
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(1000):
            steps += 1
    return steps / (time.perf_counter() - began)


def speeds_together(counters: list[subprocess.Popen], seconds: float) -> list[float]:
    """Steps per second of each of these counters, while all of them count."""
    for counter in counters:
        print(seconds, file=counter.stdin, flush=True)
    return [float(counter.stdout.readline()) for counter in counters]


@contextlib.contextmanager
def step_counters(number: int) -> Iterator[list[subprocess.Popen]]:
    """That many counters, ready to count; they end with the block."""
    # -P: a random.py in the learner's folder is none of our business
    command = [sys.executable, "-P", "-m", "sidebyside.measure.step_counter"]
    counters = []
    try:
        for _ in range(number):
            counters.append(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, text=True,
                )
            )  # fmt: skip
        speeds_together(counters, 0.01)  # all are up
        yield counters
    finally:
        for counter in counters:
            counter.kill()
            counter.communicate()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it will end it
    for line in sys.stdin:
        print(_count_steps(float(line)), flush=True)
