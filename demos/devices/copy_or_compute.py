"""Compute here, or send the data to a faster device and the result back: what pays?

Run:      python demos/devices/copy_or_compute.py
Look for: a small product is quicker here, a large one on the device. The data grow as
          n * n and the arithmetic as n * n * n, so there is a size from which on
          sending pays. It is predicted from four numbers measured on this machine.
Try:      --host torch. Now the host multiplies as fast as the device does, and sending
          never pays. With a GPU, two more tables: here is one core of the CPU, away the
          GPU, and the matrices lie in pageable and in pinned memory.
"""

import torch

from parallel_by_hand.devices.copy_or_compute import (
    GPU_SIZES,
    first_that_pays,
    measure_constants,
    predict_here_and_away,
    time_here_and_away,
)
from parallel_by_hand.devices.gpu_products import (
    measure_gpu_constants,
    time_here_and_on_gpu,
)
from sidebyside import program_parser, run_program, run_ranks

SIZES = [2, 4, 8, 16, 32, 64]  # rows of a matrix


def print_here_and_away(
    times: dict[int, tuple[float, float]], costs: dict[str, float]
) -> None:
    """For each n, both ways as predicted and as measured; then the size that pays."""
    print(f"operations per second: host {costs['host']:.2g}, device", end=" ")
    print(f"{costs['device']:.2g}; a message {1e6 * costs['alpha']:.0f} µs")
    print(f"{'':>4} {'predicted':>23} {'measured':>23}")
    print(f"{'n':>4} {'here':>11} {'away':>11} {'here':>11} {'away':>11}")
    for n, measured in times.items():
        both = *predict_here_and_away(n, costs), *measured
        print(f"{n:>4}", *(f"{1e3 * seconds:8.3f} ms" for seconds in both))
    first = first_that_pays(times)
    print(f"sending pays from n = {first} on" if first else "sending never pays here")


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--host", choices=["python", "torch"], default="python")
    host = parser.parse_args().host

    torch.set_num_threads(1)
    costs = measure_constants(host)
    times = run_ranks(time_here_and_away, SIZES, host)[0]
    print_here_and_away(times, costs)
    if not torch.cuda.is_available():
        print("no GPU: pageable and pinned memory are not compared")
        return
    for memory, pinned in ("pageable", False), ("pinned", True):
        costs = measure_gpu_constants(pinned)
        rate = 1e-9 / costs["beta"]
        print(f"\nto this GPU from {memory} memory, at {rate:.1f} GB/s")
        print_here_and_away(time_here_and_on_gpu(GPU_SIZES, pinned), costs)


if __name__ == "__main__":
    run_program(main)
