"""Launch orders on a device, and time them: without waiting, with waiting, by events.

Run:      python demos/devices/host_runs_ahead.py --orders 5 --seconds 0.03
Look for: the host has launched everything before the device has finished the first
          order. A clock on the host that does not wait reads next to nothing. With
          `synchronize`, and by events in the queue, it reads the real time.
Try:      --waiting 10. Orders of somebody else are in the queue already: who stops the
          clock after `synchronize` has measured them, too; the events have not.
          With a GPU, a second table does the same with matrix products on it.
"""

import argparse
from time import perf_counter, sleep

import torch

from demos.devices.parts.queue_device import QueueDevice
from sidebyside import Timeline, at_least, between, span
from sidebyside.programs import run_program


def device_work(name: str, seconds: float) -> None:
    """An order that keeps the device busy for a known time."""
    with span(name):
        sleep(seconds)


def launch_in_turn(device: QueueDevice, name: str, orders: int, seconds: float) -> None:
    for place in range(orders):
        with span(f"launch {place}"):
            device.launch(device_work, f"{name} {place}", seconds)


def three_clocks(orders: int, seconds: float, waiting: int = 0) -> dict[str, float]:
    """What three ways to time the same orders say, in seconds."""
    with QueueDevice("device") as device:
        launch_in_turn(device, "others", waiting, seconds)
        before = device.record_event()
        began = perf_counter()
        launch_in_turn(device, "ours", orders, seconds)
        launched = perf_counter() - began
        after = device.record_event()
        with span("wait"):
            device.synchronize()
        synchronized = perf_counter() - began
        by_events = before.elapsed_time(after) / 1e3
    return {
        "without waiting": launched,
        "after synchronize": synchronized,
        "by events": by_events,
    }


def three_clocks_of_gpu(orders: int, size: int = 4096) -> dict[str, float]:
    """The same for matrix products on a GPU, in seconds."""
    matrix = torch.rand(size, size, device="cuda")
    matrix @ matrix  # the first call is slower: libraries are loaded
    torch.cuda.synchronize()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    began = perf_counter()
    for _ in range(orders):
        matrix @ matrix
    launched = perf_counter() - began
    after.record()
    torch.cuda.synchronize()
    synchronized = perf_counter() - began
    by_events = before.elapsed_time(after) / 1e3
    return {
        "without waiting": launched,
        "after synchronize": synchronized,
        "by events": by_events,
    }


def print_clocks(readings: dict[str, float]) -> None:
    for way, seconds in readings.items():
        print(f"  {way:<18} {1e3 * seconds:9.3f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", type=at_least(1, 100), default=5)
    parser.add_argument(
        "--seconds", type=between(0.001, 1), default=0.03, help="of each order"
    )
    parser.add_argument(
        "--waiting", type=at_least(0, 100), default=0, help="orders before those timed"
    )
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
