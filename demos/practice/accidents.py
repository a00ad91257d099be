"""Let three pools meet three accidents: what does the caller learn, what is lost?

Run:      python demos/practice/accidents.py
Look for: 48 tasks, of which number 37 goes wrong. "computed" says how many tasks were
          done, "in hand" how many results the caller got, in the order of the tasks.
          "next job" is given to the same pool; after Ctrl-C there is none.
          multiprocessing.Pool does not notice that a worker was killed.
Try:      --accident kill --pool Pool --patience 20. Watch the processes meanwhile.
          It waits as long as you let it.
"""

from parallel_by_hand.practice.accidents import ACCIDENTS, POOLS, compare_accidents
from sidebyside import positive_float, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--pool", choices=POOLS, help="only this one")
    parser.add_argument("--accident", choices=ACCIDENTS, help="only this one")
    parser.add_argument("--patience", type=positive_float, default=2.0, help="seconds")
    args = parser.parse_args()

    pools = [args.pool] if args.pool else POOLS
    accidents = [args.accident] if args.accident else ACCIDENTS
    compare_accidents(args.patience, pools, accidents)


if __name__ == "__main__":
    run_program(main)
