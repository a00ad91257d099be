"""The executor: it runs each operation as soon as its inputs and its device allow."""

from collections import deque

from parallel_by_hand.dataflow.operations import (
    ANYWHERE,
    Operation,
    readers_of_operations,
)


def execute_dataflow(graph: list[Operation], machine) -> None:
    """Run every operation once, on its device, as early as possible.

    It knows nothing of clocks, threads or tensors: `machine` has `.devices`, a list;
    `.launch(device, operation)`, which returns at once; and `.wait()`, which returns
    the (device, operation) that has finished next.
    """
    readers = readers_of_operations(graph)
    missing = {op.name: len(set(op.inputs)) for op in graph}
    ready = {device: deque() for device in [*machine.devices, ANYWHERE]}
    idle = dict.fromkeys(machine.devices, True)
    for op in graph:
        if not op.inputs:
            ready[op.device].append(op)
    for _ in graph:
        for device in machine.devices:
            queue = ready[device] or ready[ANYWHERE]
            if idle[device] and queue:
                machine.launch(device, queue.popleft())
                idle[device] = False
        device, finished = machine.wait()
        idle[device] = True
        for reader in readers[finished.name]:
            missing[reader.name] -= 1
            if missing[reader.name] == 0:
                ready[reader.device].append(reader)
