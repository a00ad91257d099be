"""Launch orders on a device, and time them: without waiting, with waiting, by events.

Run:      python demos/devices/host_runs_ahead.py --orders 5 --seconds 0.03
Look for: the host has launched everything before the device has finished the first
          order. A clock on the host that does not wait reads next to nothing. With
          `synchronize`, and by events in the queue, it reads the real time.
          (The device is a thread that sleeps for each order: simulated.)
Try:      --waiting 10. Orders of another program are in the queue already: a clock that
          stops after `synchronize` has measured them too; the events have not.
          With a GPU, a second table does the same with matrix products on it.
"""

import torch

from parallel_by_hand.devices.host_runs_ahead import (
    print_clocks,
    three_clocks,
    three_clocks_of_gpu,
)
from sidebyside import Timeline, at_least, between, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--orders", type=at_least(1, 100), default=5)
    add("--seconds", type=between(0.001, 1), default=0.03, help="of each order")
    add("--waiting", type=at_least(0, 100), default=0, help="orders before those timed")
    args = parser.parse_args()

    with Timeline() as timeline:
        readings = three_clocks(args.orders, args.seconds, args.waiting)
    print(f"{args.orders} orders of {1e3 * args.seconds:g} ms on a queue", end="")
    print(f" that holds {args.waiting} already" if args.waiting else "")
    print_clocks(readings)
    print(timeline.text())
    if torch.cuda.is_available():
        print(f"{args.orders} matrix products on the GPU")
        print_clocks(three_clocks_of_gpu(args.orders))


if __name__ == "__main__":
    run_program(main)
