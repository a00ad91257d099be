"""A device as its host sees it: a queue of orders that a thread works through."""

import contextlib
import threading
from collections.abc import Callable
from queue import Queue
from time import perf_counter


class QueueDevice:
    """`launch(function, *args)` returns at once; the device calls `function` later.

    Orders are carried out one at a time, in the order of their launches. An error of a
    launched function comes out at the next `synchronize`, the first one if there are
    several; the orders behind it are carried out all the same. The thread has the
    device's name, which is its lane in a timeline. It ends with its process, or with
    the block of `with QueueDevice("gpu 0") as device:`, which waits for all orders.
    """

    def __init__(self, name: str = "device"):
        self.name = name
        self.error: BaseException | None = None
        self.orders = Queue()
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def launch(self, function: Callable, *args) -> None:
        """Put an order into the queue, and do not wait."""
        if self.orders is None:
            raise RuntimeError(f"{self.name} has been closed")
        self.orders.put((function, args))

    def _work(self) -> None:
        """What the thread does all its life."""
        orders = self.orders
        while (order := orders.get()) is not None:
            function, args = order
            try:
                function(*args)
            except BaseException as error:  # the host learns of it when it asks
                self.error = self.error or error
            order = function = args = None  # what they hold may be freed while we wait
            orders.task_done()

    def synchronize(self) -> None:
        """Wait until all orders launched so far are carried out; raise their error."""
        if threading.current_thread() is self.thread:
            raise RuntimeError(f"an order on {self.name} would wait for itself")
        if self.orders is not None:
            self.orders.join()
        error, self.error = self.error, None
        if error is not None:
            raise error

    def record_event(self) -> "QueueEvent":
        """An event that happens when the orders launched so far are carried out."""
        event = QueueEvent()
        self.launch(event.happen)
        return event

    def wait_event(self, event: "QueueEvent") -> None:
        """Later orders wait for the event, which another device may have recorded."""
        self.launch(event.synchronize)

    def close(self) -> None:
        """The thread ends after the orders that it has. Nobody waits for it."""
        orders, self.orders = self.orders, None
        if orders is not None:
            orders.put(None)

    def __enter__(self) -> "QueueDevice":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            if kind is None:
                self.synchronize()


class QueueEvent:
    """A mark in a device's queue, with the time at which the device reached it."""

    def __init__(self):
        self.happened = threading.Event()
        self.time = None

    def happen(self) -> None:
        self.time = perf_counter()
        self.happened.set()

    def synchronize(self) -> None:
        """Wait until the device has reached the mark."""
        self.happened.wait()

    def elapsed_time(self, end: "QueueEvent") -> float:
        """Milliseconds (as torch has it) from this event to `end`; both happened."""
        if self.time is None or end.time is None:
            raise RuntimeError("both events must have happened: synchronize first")
        return 1e3 * (end.time - self.time)
