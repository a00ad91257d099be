"""A slow program, to be made parallel without changing its result.

Run:      python demos/practice/pendulum_survey.py --count 20
Look for: the same seed gives the same mean, to the last digit. All the time goes into
          the periods, which do not need each other; the random numbers do.
Try:      make it parallel (lesson 07). The last digit must stay.
"""

import argparse
import math
from time import perf_counter

import numpy as np

from sidebyside.programs import run_program


def period(angle: float) -> float:
    """The time that a pendulum takes for one swing, by many small steps.

    It starts at rest at `angle`; from far up it takes longer to come down.
    """
    step, velocity, time = 1e-4, 0.0, 0.0
    while angle > 0:
        velocity -= math.sin(angle) * step
        angle += velocity * step
        time += step
    return 4 * time


def survey(seed: int, count: int) -> float:
    """The mean period of `count` pendulums that start at random angles."""
    dice = np.random.default_rng(seed)
    total = 0.0
    for _ in range(count):
        angle = dice.uniform(0.1, 3.1)
        total += period(angle) * dice.uniform(0.9, 1.1)  # clocks are not exact
    return total / count


def main() -> None:
    from sidebyside import at_least

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=at_least(1, 10_000), default=20)
    parser.add_argument("--seed", type=at_least(0, 10**9), default=0)
    args = parser.parse_args()

    start = perf_counter()
    mean = survey(args.seed, args.count)
    print(f"{args.count} pendulums, mean period {mean!r} s")
    print(f"one by one, in {perf_counter() - start:.2f} s")


if __name__ == "__main__":
    run_program(main)
