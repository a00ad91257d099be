"""Devices on a counted clock refuse what no device can do, and are drawn."""

import pytest

from parallel_by_hand.dataflow.operations import Operation, with_transfers
from parallel_by_hand.dataflow.simulated_devices import (
    SimulatedDevices,
    dataflow_letters,
    simulate_dataflow,
)


def test_a_machine_refuses_two_at_a_time_and_waiting_for_nothing():
    machine = SimulatedDevices([0])
    with pytest.raises(RuntimeError, match="nothing is running"):
        machine.wait()
    machine.launch(0, Operation("a"))
    with pytest.raises(RuntimeError, match="device 0 is busy: b must wait"):
        machine.launch(0, Operation("b"))


def test_the_picture_in_letters():
    graph = with_transfers([Operation("a"), Operation("b", ("a",), 1)], takes=2)
    assert dataflow_letters(simulate_dataflow(graph), columns=4).splitlines() == [
        "device 0 |W...| idle 75 %",
        "device 1 |...W| idle 75 %",
        "link 0→1 |.Tt.| idle 50 %",
    ]
