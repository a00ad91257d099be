"""Devices that are threads work side by side, and hand on their errors."""

from threading import Barrier

import pytest
import torch

from parallel_by_hand.dataflow.dataflow_executor import execute_dataflow
from parallel_by_hand.dataflow.operations import Operation
from parallel_by_hand.dataflow.thread_devices import ThreadDevices


def test_operations_of_two_devices_really_run_at_the_same_time():
    both = Barrier(2, timeout=60)

    def meet():
        both.wait()
        return torch.ones(1)

    graph = [Operation("a", device=0, compute=meet), Operation("b", (), 1, 1, "", meet)]
    with ThreadDevices([0, 1]) as machine:
        execute_dataflow(graph, machine)
    assert set(machine.values) == {"a", "b"}


def test_the_error_of_an_operation_reaches_the_executor_and_no_thread_is_left():
    def fails():
        raise ValueError("of an operation")

    graph = [Operation("a", compute=fails), Operation("b", ("a",), compute=fails)]
    before = torch.get_num_threads()
    error = pytest.raises(ValueError, match="of an operation")
    with error, ThreadDevices([0]) as machine:
        execute_dataflow(graph, machine)
    assert not any(thread.is_alive() for thread in machine._threads)
    assert torch.get_num_threads() == before
