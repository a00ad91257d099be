"""Queue devices that notice what an answer does with them."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from unittest import mock

from parallel_by_hand.devices.queue_device import QueueDevice, QueueEvent

PATIENCE = 4  # seconds that an order waits for another that a right answer allows


class HostWaited(Exception):
    """The host waits where it should launch."""


@contextlib.contextmanager
def host_may_not_wait(allowed: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """`synchronize` of a device or an event raises HostWaited on this thread."""
    here = threading.current_thread()

    def watched(usual: Callable) -> Callable:
        def synchronize(device_or_event) -> None:
            if threading.current_thread() is here and not allowed():
                raise HostWaited
            usual(device_or_event)

        return synchronize

    with contextlib.ExitStack() as stack:
        for kind in QueueDevice, QueueEvent:
            stack.enter_context(
                mock.patch.object(kind, "synchronize", watched(kind.synchronize))
            )
        yield


class CountingDevice(QueueDevice):
    """Knows how many orders have been launched; those of events are orders, too."""

    def __init__(self, name: str):
        self.launched = 0
        super().__init__(name)

    def launch(self, function: Callable, *args) -> None:
        super().launch(function, *args)
        self.launched += 1


class TimedQueueOrder:
    """An order that sleeps, and notes in `log` when it began and ended on `thread`."""

    def __init__(self, seconds: float, log: list, thread: threading.Thread):
        self.seconds, self.log, self.thread = seconds, log, thread

    def __call__(self) -> None:
        began = time.perf_counter()
        time.sleep(self.seconds)
        if threading.current_thread() is self.thread:
            self.log.append((self, began, time.perf_counter()))


class QueueCourse:
    """`copy` and `compute` that note what they did, and hold on where a test says so.

    `hold` is "copies" or "computes": those begin only when the test opens the gate.
    "ahead": compute k ends only after the copies that two or more buffers allow.
    """

    def __init__(self, batches: list, buffers: list, copier, computer, hold: str):
        self.batches, self.buffers, self.hold = batches, buffers, hold
        self.threads = {"copy": copier.thread, "compute": computer.thread}
        self.gate = threading.Event()
        self.begun = {"copy": 0, "compute": 0}
        self.ended = {"copy": 0, "compute": 0}
        self.faults: list[str] = []  # keys of FAULTS in checks.py
        self.changed = threading.Condition()

    def copy(self, batch, buffer) -> None:
        k = self._begin("copy")
        if k >= len(self.batches) or batch is not self.batches[k]:
            return self.faults.append("batch")
        if buffer is not self.buffers[k % len(self.buffers)]:
            return self.faults.append("buffer")
        if k - len(self.buffers) >= self.ended["compute"]:
            self.faults.append("overwritten")
        buffer[0] = batch
        self._end("copy")

    def compute(self, buffer) -> None:
        k = self._begin("compute")
        if k >= len(self.batches):
            return self.faults.append("batch")
        if buffer is not self.buffers[k % len(self.buffers)]:
            return self.faults.append("buffer")
        if k >= self.ended["copy"]:
            self.faults.append("not copied")
        elif buffer[0] is not self.batches[k]:
            self.faults.append("overwritten")
        ahead = min(k + len(self.buffers), len(self.batches))
        if self.hold == "ahead":
            with self.changed:
                if "not ahead" not in self.faults and not self.changed.wait_for(
                    lambda: self.ended["copy"] >= ahead, PATIENCE
                ):
                    self.faults.append("not ahead")
        if buffer[0] is not self.batches[k]:
            self.faults.append("overwritten")
        self._end("compute")

    def _begin(self, what: str) -> int:
        if threading.current_thread() is not self.threads[what]:
            self.faults.append("queue")
        if self.hold == {"copy": "copies", "compute": "computes"}[what]:
            self.gate.wait(10 * PATIENCE)
        with self.changed:
            self.begun[what] += 1
            self.changed.notify_all()
            return self.begun[what] - 1

    def _end(self, what: str) -> None:
        with self.changed:
            self.ended[what] += 1
            self.changed.notify_all()

    def open_gate(self) -> None:
        """After a moment, in which what does not wait goes wrong."""
        if self.hold == "computes":
            first = min(len(self.buffers), len(self.batches))
            with self.changed:
                self.changed.wait_for(lambda: self.ended["copy"] >= first, PATIENCE)
        if self.hold == "copies":
            with self.changed:
                self.changed.wait_for(lambda: self.ended["compute"] > 0, 0.25)
        if self.hold in ("copies", "computes"):
            time.sleep(0.02)
        self.gate.set()
