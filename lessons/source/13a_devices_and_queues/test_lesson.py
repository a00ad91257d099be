"""A device is an in-order queue: what the host may rely on, and what not."""

import threading
from time import perf_counter, sleep

import pytest
import torch

from demos.devices import copy_or_compute, host_runs_ahead
from demos.devices.parts import roofline
from demos.devices.parts.queue_device import QueueDevice
from demos.devices.parts.slow_batches import load_slow_batches
from sidebyside import run_ranks


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


def test_an_error_in_the_block_is_not_hidden_by_the_device():
    gate = threading.Event()
    with pytest.raises(KeyError), QueueDevice() as device:
        device.launch(gate.wait)
        raise KeyError
    gate.set()


def test_a_device_that_would_wait_for_itself_says_so():
    with pytest.raises(RuntimeError, match="itself"), QueueDevice() as device:
        device.launch(device.synchronize)


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


def test_without_an_event_the_other_queue_does_not_wait():
    gate, done = threading.Event(), []
    with QueueDevice("copier") as copier, QueueDevice("computer") as computer:
        copier.launch(gate.wait)
        copier.launch(done.append, "copy")
        computer.launch(done.append, "compute")
        computer.synchronize()
        gate.set()
    assert done == ["compute", "copy"]


def test_events_leave_out_what_stands_before_them_in_the_queue():
    clocks = host_runs_ahead.three_clocks(orders=2, seconds=0.01, waiting=3)
    assert clocks["by events"] >= 0.02


def test_a_clock_after_synchronize_measures_what_was_in_the_queue_too():
    gate = threading.Event()
    with QueueDevice() as device:
        device.launch(gate.wait)  # somebody else's
        before, began = device.record_event(), perf_counter()
        device.launch(sleep, 0.01)
        after = device.record_event()
        sleep(0.03)
        gate.set()
        device.synchronize()
        clock = perf_counter() - began
    assert clock - before.elapsed_time(after) / 1e3 >= 0.03


def test_the_intensities_are_those_of_the_text():
    operations = [
        roofline.add_vectors(1000),
        roofline.multiply_matrix(2048, 1),
        roofline.multiply_matrix(400, 400),
    ]
    found = [operation.intensity for operation in operations]
    assert found == pytest.approx([1 / 12, 0.5, 400 / 6], rel=1e-3)
    peak, bandwidth = 1e11, 1e10
    limits = [
        roofline.seconds_under_roof(operation, peak, bandwidth)
        == operation.bytes / bandwidth
        for operation in operations
    ]
    assert limits == [True, True, False]


def test_the_product_away_is_the_product_here():
    pair = torch.rand(2, 5, 5, generator=torch.Generator().manual_seed(0))
    away = run_ranks(copy_or_compute.multiply_away, pair)[0]
    torch.testing.assert_close(away, pair[0] @ pair[1])
    by_loops = torch.tensor(copy_or_compute.multiply_in_python(*pair.tolist()))
    torch.testing.assert_close(by_loops, pair[0] @ pair[1])


def test_the_size_that_pays_is_the_first_of_an_unbroken_row():
    first = copy_or_compute.first_that_pays
    assert first({2: (1, 2), 4: (2, 1), 8: (1, 2), 16: (3, 2), 32: (9, 2)}) == 16
    assert first({2: (1, 2), 4: (2, 2)}) is None


def test_batches_come_in_order_with_and_without_a_worker():
    for workers in (0, 1):
        batches = list(load_slow_batches(3, 0.0, workers))
        assert [batch[0].item() for batch in batches] == [0, 1, 2]


def test_an_operation_without_a_kernel_is_refused():
    with pytest.raises(NotImplementedError):
        torch.ones(3, device="meta").nonzero()
