"""A small network with two branches, forward and backward, as a graph of operations.

One branch sees the upper half of each digit, the other the lower half; their outputs
are added. A and B are the first layers' weights, C and D the second layers'.
"""

import torch
from torch.nn import functional as F

from parallel_by_hand.dataflow.dataflow_executor import execute_dataflow
from parallel_by_hand.dataflow.operations import (
    Operation,
    operations_of,
    placed,
    with_transfers,
)
from parallel_by_hand.dataflow.simulated_devices import devices_of_operations
from parallel_by_hand.dataflow.thread_devices import ThreadDevices

ON_DEVICE_0 = {"upper", "A", "C", "h_a", "y_a", "dC", "dh_a", "dA"}

NETWORK = {  # the names of the parameters are the operations whose results are read
    "h_a": lambda upper, A: torch.tanh(upper @ A),
    "h_b": lambda lower, B: torch.tanh(lower @ B),
    "y_a": lambda h_a, C: h_a @ C,
    "y_b": lambda h_b, D: h_b @ D,
    "y": lambda y_a, y_b: y_a + y_b,
    "loss": lambda y, labels: F.cross_entropy(y, labels),
    "dy": lambda y, labels: (y.softmax(1) - F.one_hot(labels, 10)) / len(labels),
    "dC": lambda h_a, dy: h_a.T @ dy,
    "dD": lambda h_b, dy: h_b.T @ dy,
    "dh_a": lambda dy, C, h_a: (dy @ C.T) * (1 - h_a**2),
    "dh_b": lambda dy, D, h_b: (dy @ D.T) * (1 - h_b**2),
    "dA": lambda upper, dh_a: upper.T @ dh_a,
    "dB": lambda lower, dh_b: lower.T @ dh_b,
}


def make_two_branches(hidden: int = 1024) -> dict[str, torch.Tensor]:
    """The two branches' weights, always equal: A, B 32 x hidden, C, D hidden x 10."""
    dice = torch.Generator().manual_seed(13)
    shapes = {"A": (32, hidden), "B": (32, hidden), "C": (hidden, 10)}
    shapes["D"] = shapes["C"]
    return {
        name: torch.randn(shape, generator=dice) / shape[0] ** 0.5
        for name, shape in shapes.items()
    }


def graph_of_two_branches(weights, images, labels) -> list[Operation]:
    """Forward and backward; weights and data are operations without inputs."""
    data = {"upper": images[:, :32], "lower": images[:, 32:], "labels": labels}
    sources = [
        Operation(name, takes=0, kind="forward", compute=lambda value=value: value)
        for name, value in (data | weights).items()
    ]
    steps = [
        op._replace(kind="backward" if op.name.startswith("d") else "forward")
        for op in operations_of(NETWORK)
    ]
    return sources + steps


def by_branch(graph: list[Operation]) -> dict[str, int]:
    """The upper of the two branches on device 0, all the rest on device 1."""
    return {op.name: 0 if op.name in ON_DEVICE_0 else 1 for op in graph}


def run_two_branches(weights, images, labels, placement, execute=execute_dataflow):
    """The two branches, run on devices that compute: the machine, with all values."""
    graph = graph_of_two_branches(weights, images, labels)
    graph = with_transfers(placed(graph, placement))
    with ThreadDevices(devices_of_operations(graph)) as machine:
        execute(graph, machine)
    return machine


def plain_gradients(weights, images, labels) -> dict[str, torch.Tensor]:
    """What autograd says of the two branches: the loss, each weight's gradient."""
    w = {name: value.clone().requires_grad_() for name, value in weights.items()}
    upper, lower = images[:, :32], images[:, 32:]
    y = torch.tanh(upper @ w["A"]) @ w["C"] + torch.tanh(lower @ w["B"]) @ w["D"]
    loss = F.cross_entropy(y, labels)
    loss.backward()
    return {"loss": loss.detach()} | {f"d{name}": w[name].grad for name in w}


def largest_gap(values, expected) -> float:
    """How far the two branches' `values` are from `expected`, at the most."""
    gaps = [values[n].cpu() - expected[n].cpu() for n in expected]
    return torch.stack([gap.abs().max() for gap in gaps]).max().item()
