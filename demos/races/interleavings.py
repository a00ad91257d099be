"""Try every order in which two threads can take their steps, and count how each ends.

Run:      python demos/races/interleavings.py
Look for: each thread adds 1 to x, in three steps: load x, add 1, store x. There are 20
          orders. In 18 of them one thread overwrites what the other has added, and x
          ends as 1. No thread is started here: the orders are played by hand.
Try:      --program locked. Only the two orders are left that end as they should.
          --program late-lock. This lock is taken after the load, and changes little.
          --program two-locks. In some orders nobody can move any more: a deadlock.
          --updates 3. How small can x get? The answer is neither 6 nor 3.
"""

from parallel_by_hand.races.interleavings import PROGRAMS, endings
from sidebyside import at_least, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--program", choices=PROGRAMS, default="plain")
    add("--updates", type=at_least(1, 3), default=1, help="of each thread, 1 to 3")
    args = parser.parse_args()

    a, b = (program * args.updates for program in PROGRAMS[args.program])
    print(f"A: {', '.join(a)}")
    print(f"B: {', '.join(b)}")
    found = endings(a, b)
    total, right = sum(found.values()), 2 * args.updates
    print(f"\n{total} orders are possible; x should end as {right}\n")
    for ending, count in found.items():
        name = ending if ending == "stuck" else f"x = {ending}"
        bar = "#" * max(1, round(36 * count / total))
        print(f"{name:>6}  {count:>7} orders  {bar}")


if __name__ == "__main__":
    run_program(main)
