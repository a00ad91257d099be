"""Seven data-parallel programs, each with one mistake, and what a meter reads of them.

Run:      python demos/data_parallel/bug_museum.py --exhibit B
Look for: none of them stops with an error. The meter reads whether the replicas agree,
          how long the first step is beside one process's, and where they end. From
          these readings and the program, find the wrong line.
Try:      --ranks 3. Readings that grow with the number of ranks say a lot.
"""

from parallel_by_hand.data_parallel.exhibits import EXHIBITS
from parallel_by_hand.data_parallel.museum_meter import show_exhibits
from sidebyside import at_least, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--exhibit", choices=EXHIBITS, help="default: all")
    parser.add_argument("--ranks", type=at_least(2, 16), default=2)
    args = parser.parse_args()
    show_exhibits(args.exhibit or "".join(EXHIBITS), args.ranks)


if __name__ == "__main__":
    run_program(main)
