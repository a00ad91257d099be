"""Devices on a clock that is only counted: nothing is computed, and nobody sleeps."""

import heapq
from collections.abc import Hashable, Mapping
from typing import NamedTuple

from parallel_by_hand.dataflow.dataflow_executor import execute_dataflow
from parallel_by_hand.dataflow.operations import Operation
from sidebyside.timeline.lanes import Bar, extent_of_lanes, shares_of_lane, write_lane


class RanOperation(NamedTuple):
    """`operation` ran on a simulated `device` from `start` to `end`."""

    start: float
    end: float
    device: Hashable
    operation: Operation


class SimulatedDevices:
    """A machine for an executor; `ran` is what its devices have done."""

    def __init__(self, devices):
        self.devices = list(devices)
        self.clock = 0
        self.ran: list[RanOperation] = []
        self._running: list[tuple] = []  # a heap: the first to end comes out first

    def launch(self, device, operation: Operation) -> None:
        """Start `operation` on `device`, and return at once."""
        if device in [busy for _, _, busy, _ in self._running]:
            raise RuntimeError(f"device {device} is busy: {operation.name} must wait")
        end, number = self.clock + operation.takes, len(self.ran)
        self.ran.append(RanOperation(self.clock, end, device, operation))
        heapq.heappush(self._running, (end, number, device, operation))

    def wait(self) -> tuple[Hashable, Operation]:
        """Let the clock run until an operation has finished: its device, and itself."""
        if not self._running:
            raise RuntimeError("nothing is running: nothing can finish")
        self.clock, _, device, operation = heapq.heappop(self._running)
        return device, operation


def devices_of_operations(graph: list[Operation]) -> list[Hashable]:
    """The devices to simulate, as the operations name them: numbers, then links."""
    return sorted({op.device for op in graph}, key=lambda d: (isinstance(d, str), d))


def simulate_dataflow(graph: list[Operation], devices=None) -> list[RanOperation]:
    """What each device does when, on the simulated clock."""
    machine = SimulatedDevices(
        devices_of_operations(graph) if devices is None else devices
    )
    execute_dataflow(graph, machine)
    return machine.ran


def makespan(ran: list[RanOperation]) -> float:
    """The time at which the last operation ends on simulated devices."""
    return max((run.end for run in ran), default=0)


def draw_dataflow(
    ran: list[RanOperation] | Mapping[str, list[RanOperation]],
    stamp: str = "simulated",
    unit: str = "slots",
):
    """A lane for each simulated device and link; grey is idle. In one panel or more."""
    from sidebyside.timeline.lanes_picture import (
        draw_lanes,  # slow, and letters need none
    )

    panels = ran if isinstance(ran, Mapping) else {"": ran}
    lanes = {title: _lanes(panel) for title, panel in panels.items()}
    fig = draw_lanes(lanes, unit, stamp)
    fig.alt = f"operations on devices, {stamp}"
    if stamp == "simulated":  # the text of what is measured must not differ
        texts = [f"{title}\n{dataflow_text(panel)}" for title, panel in panels.items()]
        fig.alt = "\n".join([fig.alt, *texts])
    return fig


def _lanes(ran: list[RanOperation]) -> dict[str, list[Bar]]:
    graph = [run.operation._replace(device=run.device) for run in ran]
    lanes = {lane_of_device(device): [] for device in devices_of_operations(graph)}
    for start, end, device, op in ran:
        if end > start:
            label = op.name.split(" ")[1] if op.kind == "transfer" else op.name
            lanes[lane_of_device(device)].append(Bar(start, end, op.kind, (label,)))
    return lanes


def lane_of_device(device: Hashable) -> str:
    """What the lane of a device, simulated or not, is called."""
    return f"link {device}" if isinstance(device, str) else f"device {device}"


def dataflow_text(ran: list[RanOperation]) -> str:
    """What simulated devices did, in letters: by lane, when which operation ran."""
    lines = []
    for name, bars in _lanes(ran).items():
        parts = [f"{bar.labels[0]} {bar.start:g}-{bar.end:g}" for bar in bars]
        lines.append(f"{name} | {', '.join(parts)}")
    return "\n".join(lines)


def dataflow_letters(ran: list[RanOperation], columns: int = 60) -> str:
    """The same for terminals: first letters of the operations' kinds, dots idle."""
    lanes = _lanes(ran)
    start, end = extent_of_lanes(lanes)
    column, wide = (end - start) / columns or 1, max(map(len, lanes))

    def marks(bar: Bar) -> tuple[str, str]:
        return bar.kind[0].upper(), bar.kind[0]

    return "\n".join(
        f"{name:<{wide}} |{write_lane(bars, start, column, columns, marks)}| "
        + shares_of_lane(bars, end - start)
        for name, bars in lanes.items()
    )
