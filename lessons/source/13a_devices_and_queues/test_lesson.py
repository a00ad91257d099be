"""A device is an in-order queue: what the host may rely on, and what not."""

import ast
import sys
import threading
from pathlib import Path
from time import perf_counter, sleep

import pytest
import torch

from demos.devices import copy_or_compute as copy_or_compute_demo
from lessons.props.devices_and_queues import load_slow_batches
from parallel_by_hand.devices import copy_or_compute, host_runs_ahead, roofline
from parallel_by_hand.devices.queue_device import QueueDevice
from sidebyside import MessageMeter, Timeline, device, run_ranks, span
from sidebyside.course.lesson_format import read_lesson

LESSON = read_lesson(Path(__file__).parent)


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


@pytest.mark.parametrize(("n", "here", "away"), [(1, 1, 4.02), (10, 1000, 321)])
def test_here_and_away_are_predicted_by_the_formulas_of_the_text(n, here, away):
    """By hand: 2 n³ / 2 here, and 2 · 0.5 + 12 n² · 0.25 + 2 n³ / 100 away."""
    costs = {"host": 2.0, "device": 100.0, "alpha": 0.5, "beta": 0.25}
    predicted = copy_or_compute.predict_here_and_away(n, costs)
    assert predicted == pytest.approx((here, away))


def meter_product_away(n: int) -> tuple[int, int]:
    """Runs in each of two ranks: messages and bytes that it sends."""
    with MessageMeter() as meter:
        copy_or_compute.multiply_away(torch.rand(2, n, n, device=device()))
    return meter.messages_sent, meter.bytes_sent


def test_a_product_away_is_two_messages_and_the_bytes_of_the_formula():
    assert run_ranks(meter_product_away, 5) == [(1, 8 * 5**2), (1, 4 * 5**2)]


def test_without_a_gpu_the_demo_says_what_it_leaves_out(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["copy_or_compute.py", "--largest", "2"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # of this process
    copy_or_compute_demo.main()
    assert capsys.readouterr().out.splitlines()[-1].startswith("no GPU: ")


def test_with_a_gpu_the_demo_compares_pageable_and_pinned_memory(monkeypatch, capsys):
    """Times as predicted; worked out by hand, 32 rows are the first that pay."""

    def constants(pinned: bool) -> dict[str, float]:
        beta = 1e-10 if pinned else 2e-10
        return {"host": 1e9, "device": 1e12, "alpha": 1e-5, "beta": beta}

    def times(sizes: list[int], pinned: bool) -> dict:
        predict = copy_or_compute.predict_here_and_away
        return {n: predict(n, constants(pinned)) for n in sizes}

    monkeypatch.setattr(sys, "argv", ["copy_or_compute.py", "--largest", "2"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # of this process
    monkeypatch.setattr(copy_or_compute_demo, "measure_gpu_constants", constants)
    monkeypatch.setattr(copy_or_compute_demo, "time_here_and_on_gpu", times)
    copy_or_compute_demo.main()
    _, pageable, pinned = capsys.readouterr().out.split("\n\n")
    for table, head in (
        (pageable, "to this GPU from pageable memory, at 5.0 GB/s"),
        (pinned, "to this GPU from pinned memory, at 10.0 GB/s"),
    ):
        assert table.splitlines()[0] == head
        assert table.splitlines()[-1] == "sending pays from n = 32 on"
        rows = [line.split() for line in table.splitlines()[4:-1]]
        assert [int(row[0]) for row in rows] == copy_or_compute.GPU_SIZES
        assert all(row[1:5] == row[5:] for row in rows), "as predicted, as measured"


def test_the_size_that_pays_is_the_first_of_an_unbroken_row():
    first = copy_or_compute.first_that_pays
    assert first({2: (1, 2), 4: (2, 1), 8: (1, 2), 16: (3, 2), 32: (9, 2)}) == 16
    assert first({2: (1, 2), 4: (2, 2)}) is None


def test_batches_come_in_order_with_and_without_a_worker():
    for workers in (0, 1):
        batches = list(load_slow_batches(3, 0.0, workers))
        assert [batch[0].item() for batch in batches] == [0, 1, 2]


def epoch_of_lesson(train):
    """The lesson's own `epoch`, which launches this `train`."""
    [cell] = [c for c in LESSON.code_cells if "def epoch(" in c.source]
    functions = [
        p for p in ast.parse(cell.source).body if isinstance(p, ast.FunctionDef)
    ]
    names = {"QueueDevice": QueueDevice, "load_slow_batches": load_slow_batches}
    exec(compile(ast.Module(functions, []), "<lesson>", "exec"), names)
    names["train"] = train
    return names["epoch"]


@pytest.mark.parametrize("workers", [0, 1])
def test_only_with_a_worker_is_the_next_batch_prepared_beside_training(workers):
    """The next one, and no further one."""

    def train(k):
        """With a worker it ends after batch k + 1 is ready: the order is certain."""
        with span(f"train {k}"):
            latest = perf_counter() + 10
            while workers and k < 5 and f"prepare {k + 1}" not in names_of_spans():
                assert perf_counter() < latest, f"nothing is prepared beside batch {k}"
                sleep(0.01)
            sleep(0.05)

    def names_of_spans():
        return [s.name for s in timeline.spans]

    with Timeline() as timeline:
        epoch_of_lesson(train)(workers)
    found = {s.name: s for s in timeline.spans}
    assert len(found) == 12
    for k in range(5):
        beside = found[f"prepare {k + 1}"].start < found[f"train {k}"].end
        assert beside == bool(workers)
    for k in range(4):
        assert found[f"prepare {k + 2}"].start > found[f"train {k}"].end


def test_an_operation_without_a_kernel_is_refused():
    with pytest.raises(NotImplementedError):
        torch.ones(3, device="meta").nonzero()
