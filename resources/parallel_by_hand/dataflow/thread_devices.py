"""Devices that compute: a thread for each, and a queue of what has finished."""

from collections.abc import Hashable
from queue import SimpleQueue
from threading import Thread
from time import perf_counter

import torch

from parallel_by_hand.dataflow.operations import Operation
from parallel_by_hand.dataflow.simulated_devices import RanOperation, lane_of_device
from sidebyside import span


class ThreadDevices:
    """`with ThreadDevices([0, 1]) as machine:` a machine for an executor.

    `values` holds the result of each operation that has run, `ran` when it did (in
    milliseconds). Numbered devices are GPUs where there are that many, else the CPU;
    each result lies on its device. Links have a thread, too. Each thread computes with
    one thread of torch's.
    """

    def __init__(self, devices):
        self.devices = list(devices)
        self.values: dict[str, torch.Tensor] = {}
        self.ran: list[RanOperation] = []
        self._inboxes = {device: SimpleQueue() for device in self.devices}
        self._finished: SimpleQueue = SimpleQueue()
        self._running = 0

    def launch(self, device: Hashable, operation: Operation) -> None:
        """Start `operation` on `device`, and return at once."""
        self._running += 1
        self._inboxes[device].put(operation)

    def wait(self) -> tuple[Hashable, Operation]:
        """Wait until an operation has finished; if it has failed, raise its error."""
        if not self._running:
            raise RuntimeError("nothing is running: nothing can finish")
        ran, error = self._finished.get()
        self._running -= 1
        if error is not None:
            raise error
        self.ran.append(ran)
        return ran.device, ran.operation

    def _serve(self, device: Hashable) -> None:
        """Runs in the device's thread: one operation after the other."""
        torch.set_num_threads(1)
        where = _torch_device(device, self.devices)
        while (operation := self._inboxes[device].get()) is not None:
            began, error = 1e3 * perf_counter(), None
            try:
                with span(operation.kind):
                    self.values[operation.name] = self._result(operation, where)
            except BaseException as problem:
                error = problem
            ran = RanOperation(began, 1e3 * perf_counter(), device, operation)
            self._finished.put((ran, error))

    def _result(self, operation: Operation, where: torch.device | None):
        """What it computes; on a GPU, finished means that the GPU has finished."""
        inputs = (self.values[name] for name in operation.inputs)
        value = operation.compute(*inputs)  # pyright: ignore[reportOptionalCall]  it is real work
        if where is not None:
            value = value.to(where)
        if value.is_cuda:
            torch.cuda.synchronize(value.device)
        return value

    def __enter__(self) -> "ThreadDevices":
        self._before = torch.get_num_threads()
        torch.set_num_threads(1)
        self._threads = [
            Thread(target=self._serve, args=(device,), name=lane_of_device(device))
            for device in self.devices
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception) -> None:
        for inbox in self._inboxes.values():
            inbox.put(None)
        for thread in self._threads:
            thread.join()
        torch.set_num_threads(self._before)


def _torch_device(device: Hashable, devices: list) -> torch.device | None:
    """Where results of `device` lie; a link leaves them where they are."""
    if isinstance(device, str):
        return None
    numbered = [other for other in devices if not isinstance(other, str)]
    if torch.cuda.device_count() >= len(numbered):
        return torch.device("cuda", numbered.index(device))
    return torch.device("cpu")
