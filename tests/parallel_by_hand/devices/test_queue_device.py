"""A device carries out what is launched, in order, while the host goes on."""

import threading

import pytest

from parallel_by_hand.devices.queue_device import QueueDevice


def test_launch_returns_before_the_work_and_synchronize_after_it():
    gate, done = threading.Event(), []
    with QueueDevice() as device:
        device.launch(gate.wait)
        for k in range(5):
            device.launch(done.append, k)
        assert done == [], "the host runs ahead"
        gate.set()
        device.synchronize()
        assert done == [0, 1, 2, 3, 4], "in order"


def test_the_first_error_comes_out_at_synchronize_and_only_once():
    done = []
    with QueueDevice() as device:
        device.launch(lambda: 1 / 0)
        device.launch(lambda: {}["key"])
        device.launch(done.append, 1)
        with pytest.raises(ZeroDivisionError):
            device.synchronize()
        assert done == [1]
        device.synchronize()


def test_the_thread_ends_with_the_block_and_a_closed_device_refuses():
    with QueueDevice() as device:
        device.launch(int)
    device.thread.join(10)
    assert not device.thread.is_alive() and device.thread.daemon
    with pytest.raises(RuntimeError, match="closed"):
        device.launch(int)


def test_a_queue_waits_for_the_event_of_another():
    gate, done = threading.Event(), []
    with QueueDevice("copier") as copier, QueueDevice("computer") as computer:
        copier.launch(gate.wait)
        copier.launch(done.append, "copy")
        computer.wait_event(copier.record_event())
        computer.launch(done.append, "compute")
        assert done == []
        gate.set()
        computer.synchronize()
        assert done == ["copy", "compute"]
