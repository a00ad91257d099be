"""Show what the workers of a torch DataLoader draw, generator by generator.

Run:      python demos/random_numbers/loader_workers.py
Look for: DataLoader gives each worker a seed of its own for random, np.random and
          torch. A generator that belongs to the dataset is copied like the rest of
          it: both workers draw the same numbers, and the same again in each epoch.
          The last two tables cure it with a worker_init_fn.
Try:      --start-method spawn, or fork on Linux. The same numbers, digit for digit.
"""

import multiprocessing

from parallel_by_hand.random_numbers.loader_workers import (
    Noise,
    make_loader,
    new_stream,
    start_method,
)
from sidebyside import at_least, program_parser, run_program

COLUMNS = ("random", "np.random", "torch", "dataset.rng")


def show_items_of_loader(title: str, items: list[list[float]]) -> None:
    print(title)
    print(f"{'item':>7} {'worker':>7} ", *(f"{name:>11}" for name in COLUMNS))
    for number, (worker, *numbers) in enumerate(items):
        print(f"{number:>7} {worker:>7} ", *(f"{x:>11.4f}" for x in numbers))
    print(flush=True)


def main() -> None:
    methods = multiprocessing.get_all_start_methods()
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--workers", type=at_least(2, 16), default=2)
    add("--start-method", choices=methods, default=start_method())
    args = parser.parse_args()

    for title, init in {"as it is": None, "worker_init_fn": new_stream}.items():
        loader = make_loader(
            Noise(2 * args.workers), args.workers, args.start_method, init
        )
        for epoch in range(2):
            show_items_of_loader(f"{title}, epoch {epoch}", list(loader))


if __name__ == "__main__":
    run_program(main)
