"""A program as a graph of operations: plain data, in any order.

An operation names those whose results it reads. Nothing else says what comes before
what. `dataflow_executor.py` carries a graph out, `simulated_devices.py` and
`thread_devices.py` are machines that it can be carried out on.
"""

import inspect
import random
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import NamedTuple

ANYWHERE = None  # an operation with this device may run on any


class Operation(NamedTuple):
    """One node of the graph of operations."""

    name: str
    inputs: tuple[str, ...] = ()
    device: Hashable = 0
    takes: float = 1  # on the simulated clock
    kind: str = "work"
    compute: Callable | None = None  # its arguments are the results of `inputs`


def operations_of(functions: Mapping[str, Callable]) -> list[Operation]:
    """A graph from functions: a parameter is the name of the operation it reads."""
    return [
        Operation(name, tuple(inspect.signature(function).parameters), compute=function)
        for name, function in functions.items()
    ]


def placed(graph: list[Operation], placement: Mapping[str, Hashable]):
    """The graph's operations with the devices that `placement` names."""
    return [op._replace(device=placement[op.name]) for op in graph]


def placed_anywhere(graph: list[Operation]) -> list[Operation]:
    """The graph's operations, with one ready queue for all devices."""
    return [op._replace(device=ANYWHERE) for op in graph]


def with_transfers(graph: list[Operation], takes: float = 1) -> list[Operation]:
    """The graph with more operations: a send and a recv where an edge crosses devices.

    A send occupies the link, a lane such as "0→1", for the time `takes`; a recv hands
    the value over on the other side and takes no time. A value that several operations
    of a device read is sent there once.
    """
    home = {op.name: op.device for op in graph}
    added: dict[str, Operation] = {}

    def on(device, name: str) -> str:
        """Under which name an operation of `device` reads the value `name`."""
        if home[name] == device:
            return name
        link = f"{home[name]}→{device}"
        send, recv = f"send {name} {link}", f"recv {name} {link}"
        added[send] = Operation(send, (name,), link, takes, "transfer", _copy_to_link)
        added[recv] = Operation(recv, (send,), device, 0, "transfer", _take_from_link)
        return recv

    crossed = [
        op._replace(inputs=tuple(on(op.device, name) for name in op.inputs))
        for op in graph
    ]
    return [*crossed, *added.values()]


def _copy_to_link(value):
    """What a send computes."""
    return value.clone()


def _take_from_link(value):
    """What a recv computes; the machine moves the result to the recv's device."""
    return value


def transfers_in(graph: list[Operation]) -> list[str]:
    """The names of values that operations send to other devices, each with its link."""
    return [op.name[5:] for op in graph if op.name.startswith("send ")]


def total_work(graph: list[Operation]) -> float:
    """How long one device would take for all operations."""
    return sum(op.takes for op in graph)


def longest_path(graph: list[Operation]) -> float:
    """The time that all operations take at least: the longest chain of inputs."""
    return max(longest_paths_to_the_end(graph).values(), default=0)


def longest_paths_to_the_end(graph: list[Operation]) -> dict[str, float]:
    """For each operation, the longest chain that begins with it."""
    takes = {op.name: op.takes for op in graph}
    readers = readers_of_operations(graph)

    @cache
    def from_here(name: str) -> float:
        after = (from_here(reader.name) for reader in readers[name])
        return takes[name] + max(after, default=0)

    return {name: from_here(name) for name in takes}


def readers_of_operations(graph: list[Operation]) -> dict[str, list[Operation]]:
    """For each operation, those that read its result; one that reads it twice, once."""
    readers: dict[str, list[Operation]] = {op.name: [] for op in graph}
    for op in graph:
        for name in dict.fromkeys(op.inputs):
            readers[name].append(op)
    return readers


def random_operations(dice: random.Random, number: int, devices: int):
    """A random graph on random devices; each operation reads up to two before it."""
    graph: list[Operation] = []
    for place in range(number):
        many = min(place, dice.randint(0, 2))
        inputs = tuple(op.name for op in dice.sample(graph, many))
        device, takes = dice.randrange(devices), dice.randint(1, 9)
        graph.append(Operation(f"n{place}", inputs, device, takes))
    return graph
