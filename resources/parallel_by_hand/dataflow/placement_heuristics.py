"""Three rules of thumb that place operations on devices, none of them the best."""

from collections.abc import Hashable

from parallel_by_hand.dataflow.operations import (
    Operation,
    longest_paths_to_the_end,
    placed,
    with_transfers,
)
from parallel_by_hand.dataflow.simulated_devices import simulate_dataflow

Placement = dict[str, Hashable]


def operations_in_order_of_inputs(graph: list[Operation]) -> list[Operation]:
    """The operations in an order in which each comes after its inputs."""
    left, done, order = list(graph), set(), []
    while left:
        free = [op for op in left if set(op.inputs) <= done]
        order += free
        done |= {op.name for op in free}
        left = [op for op in left if op.name not in done]
    return order


def round_robin(graph: list[Operation], devices: int) -> Placement:
    """Deal the operations like cards, whatever they are."""
    order = operations_in_order_of_inputs(graph)
    return {op.name: place % devices for place, op in enumerate(order)}


def longest_path_first(graph: list[Operation], devices: int) -> Placement:
    """The most urgent operation next, to the device that can start it first.

    Urgent is what begins the longest chain. It believes that transfers are free.
    """
    urgency = longest_paths_to_the_end(graph)
    order = {
        op.name: place for place, op in enumerate(operations_in_order_of_inputs(graph))
    }
    placement, ends, free = {}, {}, [0.0] * devices
    for op in sorted(graph, key=lambda op: (-urgency[op.name], order[op.name])):
        inputs_there = max((ends[name] for name in op.inputs), default=0)
        device = min(range(devices), key=lambda d: max(free[d], inputs_there))
        free[device] = max(free[device], inputs_there) + op.takes
        placement[op.name], ends[op.name] = device, free[device]
    return placement


def least_communication(graph: list[Operation], devices: int) -> Placement:
    """Each operation where most of its inputs are; if equal, where least work is."""
    placement: Placement = {}
    work = [0.0] * devices
    for op in operations_in_order_of_inputs(graph):
        here = [placement[name] for name in set(op.inputs)]
        device = min(range(devices), key=lambda d: (-here.count(d), work[d]))
        work[device] += op.takes
        placement[op.name] = device
    return placement


HEURISTICS = {
    "round robin": round_robin,
    "longest path first": longest_path_first,
    "least communication": least_communication,
}

EIGHT_OPERATIONS = [  # two branches, forward and back; g1 and g2 are gradients
    Operation("x", (), takes=1),
    Operation("h1", ("x",), takes=5),
    Operation("h2", ("x",), takes=5),
    Operation("y1", ("h1",), takes=2),
    Operation("y2", ("h2",), takes=2),
    Operation("loss", ("y1", "y2"), takes=1),
    Operation("g1", ("h1", "loss"), takes=6),
    Operation("g2", ("h2", "loss"), takes=4),
]
LINK_TAKES = 3  # slots, for each value that crosses


def run_placement(graph: list[Operation], placement: Placement, link: float = 0):
    """What the devices do under `placement`, if each transfer takes `link` slots."""
    return simulate_dataflow(with_transfers(placed(graph, placement), link))
