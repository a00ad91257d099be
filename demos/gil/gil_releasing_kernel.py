"""Find out which work two threads can do at the same time.

Run:      python demos/gil/gil_releasing_kernel.py
Look for: the loop and the sort gain nothing from threads: both hold the GIL, one in
          Python, the other in C. The checksum and the matrix product release it while
          they compute, so two threads keep two cores busy. No gain can be larger than
          what the machine has to give, which stands in the first line: on one core,
          or beside other programs, about 1. The last column is the CPU time of the
          threads as a share of their time: 200 % keeps two cores busy.
Try:      --threads 4. The gain ends where the cores end.
          --size 8. Now calling the product takes longer than the product, and the call
          needs the GIL.
"""

import hashlib
from collections.abc import Callable
from statistics import median
from threading import Thread
from time import perf_counter, process_time

import torch

from sidebyside import at_least, machine, program_parser, run_program

ROUNDS = 3


def kernels(size: int) -> dict[str, Callable[[], object]]:
    """Four pieces of work; all but the product take a fixed amount of time."""
    matrix = torch.rand(size, size)
    products = max(1, 4_000_000_000 // (size**3 + 200_000))
    numbers = torch.randperm(400_000).tolist()
    data = bytes(100_000_000)

    def python_loop() -> None:
        total = 0
        for step in range(2_000_000):
            total += step * step

    def matrix_product() -> None:
        for _ in range(products):
            torch.mm(matrix, matrix)

    return {
        "Python loop": python_loop,
        "sort": lambda: sorted(numbers),
        "checksum": lambda: hashlib.sha256(data).digest(),
        "matrix product": matrix_product,
    }


def kernel_one_by_one(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def kernel_in_threads(work: Callable[[], object], times: int) -> None:
    crew = [Thread(target=work) for _ in range(times)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()


def time_kernel(way, work: Callable[[], object], times: int) -> tuple[float, float]:
    """Seconds it took, and seconds of CPU time that all threads together used."""
    start, cpu = perf_counter(), process_time()
    way(work, times)
    return perf_counter() - start, process_time() - cpu


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--threads", type=at_least(1, 16), default=2)
    add("--size", type=at_least(1, 4000), default=800, help="of the square matrix")
    args = parser.parse_args()

    torch.set_num_threads(1)  # or one product alone would use every core
    print(f"{args.threads} threads; busy processes would get ", end="", flush=True)
    print(f"{machine().capacity(args.threads):.2f} × the work of one", flush=True)
    print(f"{'':<15} {'one by one':>10} {'threads':>9} {'gain':>7} {'CPU':>7}")
    for name, work in kernels(args.size).items():
        work()  # the first call is slower: memory is fetched, code is loaded
        rounds = [
            [
                time_kernel(way, work, args.threads)
                for way in (kernel_one_by_one, kernel_in_threads)
            ]
            for _ in range(ROUNDS)
        ]
        serial = median(serial for (serial, _), _ in rounds)
        threads = median(threads for _, (threads, _) in rounds)
        cores = median(cpu / threads for _, (threads, cpu) in rounds)
        print(
            f"{name:<15} {serial:8.3f} s {threads:7.3f} s {serial / threads:5.2f} ×"
            f" {100 * cores:5.0f} %",
            flush=True,
        )


if __name__ == "__main__":
    run_program(main)
