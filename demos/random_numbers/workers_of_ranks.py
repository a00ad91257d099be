"""Show from which seed each DataLoader worker of each rank draws.

Run:      python demos/random_numbers/workers_of_ranks.py
Look for: DataLoader gives worker w the seed base + w, and draws `base` from torch's
          generator. Where all ranks have called torch.manual_seed alike, worker w of
          one rank has the seed of worker w of every other. A generator with the rank
          in its seed gives each worker of each rank a seed of its own.
Try:      --ranks 3. Six workers: two seeds, then six.
"""

from parallel_by_hand.random_numbers.workers_of_ranks import seeds_of_workers
from sidebyside import at_least, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(1, 4), default=2)
    ranks = parser.parse_args().ranks

    of_each = run_ranks(seeds_of_workers, world_size=ranks)
    for name in of_each[0]:
        print(f"{name}\n  rank  worker  seed")
        for rank, seeds in enumerate(of_each):
            for worker, seed in enumerate(seeds[name]):
                print(f"  {rank:>4}  {worker:>6}  {seed}")
        different = {seed for seeds in of_each for seed in seeds[name]}
        print("  different:", len(different), flush=True)


if __name__ == "__main__":
    run_program(main)
