"""A slow program, to be made parallel without changing its result.

Run:      python demos/practice/pendulum_survey.py --count 20
Look for: the same seed gives the same mean, to the last digit. All the time goes into
          the periods, which do not need each other; the random numbers do.
Try:      make it parallel (lesson 07). The last digit must stay.
"""

import argparse
from time import perf_counter

from parallel_by_hand.practice.pendulum_survey import survey
from sidebyside import run_program


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
