"""A slow program, to be made parallel without changing its result.

Run:      python demos/practice/pendulum_survey.py --count 20
Look for: each run gives the same mean, to the last digit. All the time goes into
          the periods, which do not need each other; the random numbers do.
Try:      make it parallel (lesson 07). The last digit must stay.
"""

from time import perf_counter

from parallel_by_hand.practice.pendulum_survey import survey
from sidebyside import at_least, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--count", type=at_least(1, 10_000), default=20)
    count = parser.parse_args().count

    start = perf_counter()
    mean = survey(seed=0, count=count)
    print(f"{count} pendulums, mean period {mean!r} s")
    print(f"one by one, in {perf_counter() - start:.2f} s")


if __name__ == "__main__":
    run_program(main)
