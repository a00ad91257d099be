"""Orders launched on a device, and timed: without waiting, with waiting, by events."""

from time import perf_counter, sleep

import torch

from parallel_by_hand.devices.queue_device import QueueDevice
from sidebyside import span

CLOCKS = "without waiting", "after synchronize", "by events"


def _device_work(name: str, seconds: float) -> None:
    """An order that keeps the device busy for a known time."""
    with span(name):
        sleep(seconds)


def _launch_in_turn(
    device: QueueDevice, name: str, orders: int, seconds: float
) -> None:
    for place in range(orders):
        with span(f"launch {place}"):
            device.launch(_device_work, f"{name} {place}", seconds)


def three_clocks(orders: int, seconds: float, waiting: int = 0) -> dict[str, float]:
    """A host that runs ahead: what three ways to time its orders say, in seconds."""
    with QueueDevice("device") as device:
        _launch_in_turn(device, "others", waiting, seconds)
        before = device.record_event()
        began = perf_counter()
        _launch_in_turn(device, "ours", orders, seconds)
        launched = perf_counter() - began
        after = device.record_event()
        with span("wait"):
            device.synchronize()
        synchronized = perf_counter() - began
        by_events = before.elapsed_time(after) / 1e3
    return dict(zip(CLOCKS, (launched, synchronized, by_events), strict=True))


def three_clocks_of_gpu(orders: int, size: int = 4096) -> dict[str, float]:
    """A host that runs ahead of a GPU: three times for matrix products, in seconds."""
    matrix = torch.rand(size, size, device="cuda")
    torch.mm(matrix, matrix)  # the first call is slower: libraries are loaded
    torch.cuda.synchronize()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    began = perf_counter()
    for _ in range(orders):
        torch.mm(matrix, matrix)
    launched = perf_counter() - began
    after.record()
    torch.cuda.synchronize()
    synchronized = perf_counter() - began
    by_events = before.elapsed_time(after) / 1e3
    return dict(zip(CLOCKS, (launched, synchronized, by_events), strict=True))


def print_clocks(readings: dict[str, float]) -> None:
    """A line for each clock of a host that runs ahead."""
    for way, seconds in readings.items():
        print(f"  {way:<18} {1e3 * seconds:9.3f} ms")
