"""A device is an in-order queue: what the host may rely on, and what not."""

import ast
import threading
from pathlib import Path
from time import perf_counter, sleep

import pytest

from lessons.props.devices_and_queues import load_slow_batches
from parallel_by_hand.devices import roofline
from parallel_by_hand.devices.queue_device import QueueDevice
from sidebyside import Timeline, span
from sidebyside.course.lesson_format import read_lesson

LESSON = read_lesson(Path(__file__).parent)


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


def test_memory_limits_the_sum_of_vectors_and_arithmetic_the_product_of_matrices():
    peak, bandwidth = 1e11, 1e10
    add, product = roofline.add_vectors(), roofline.multiply_matrix(400, 400)
    for one, seconds in (add, add.bytes / bandwidth), (product, product.flops / peak):
        assert roofline.seconds_under_roof(one, peak, bandwidth) == seconds


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
