"""Lesson 13b: the executor keeps its rules, computes what autograd does, is bounded.

Rules and bounds are tested on a counted clock, results on real threads. Nothing here
asserts how long something takes.
"""

import random
from itertools import product
from pathlib import Path

import torch

from parallel_by_hand.dataflow.dataflow_executor import execute_dataflow
from parallel_by_hand.dataflow.operations import (
    total_work,
    transfers_in,
)
from parallel_by_hand.dataflow.placement_heuristics import (
    EIGHT_OPERATIONS,
    HEURISTICS,
    LINK_TAKES,
    run_placement,
)
from parallel_by_hand.dataflow.simulated_devices import makespan
from parallel_by_hand.dataflow.two_branch_network import (
    by_branch,
    graph_of_two_branches,
    largest_gap,
    make_two_branches,
    plain_gradients,
    run_two_branches,
)
from sidebyside.course.lesson_format import read_lesson, solved

from .checks import DevicesWatchingExecutor, _devices_and_dataflows

# Rules ------------------------------------------------------------------------------


def test_the_executor_keeps_the_four_rules():
    for devices, graph in _devices_and_dataflows():
        machine = DevicesWatchingExecutor(devices, graph)
        execute_dataflow(graph, machine)
        assert machine.finished == {op.name for op in graph}
        _expect_inputs_first_and_one_at_a_time(machine.ran)


def _expect_inputs_first_and_one_at_a_time(ran):
    by_name = {run.operation.name: run for run in ran}
    for run in ran:
        assert all(by_name[name].end <= run.start for name in run.operation.inputs)
        for other in ran:
            same = other.device == run.device and other is not run
            assert not (same and other.start < run.end and run.start < other.end)


# Real work --------------------------------------------------------------------------


def small_network() -> tuple:
    dice = torch.Generator().manual_seed(7)
    images = torch.rand(40, 64, generator=dice)
    return make_two_branches(hidden=24), images, torch.arange(40) % 10


def all_placements(graph):
    yield by_branch(graph)
    for rule in HEURISTICS.values():
        for devices in 1, 2, 3:
            yield rule(graph, devices)
    dice = random.Random(3)
    for _ in range(10):
        yield {op.name: dice.randrange(3) for op in graph}


def test_loss_and_gradients_are_autograds_under_every_placement():
    weights, images, labels = small_network()
    expected = plain_gradients(weights, images, labels)
    graph = graph_of_two_branches(weights, images, labels)
    for placement in all_placements(graph):
        machine = run_two_branches(weights, images, labels, placement)
        assert largest_gap(machine.values, expected) <= 1e-6
        assert len(machine.ran) == len(machine.values)
        _expect_inputs_first_and_one_at_a_time(machine.ran)


# Placements -------------------------------------------------------------------------


def test_the_eight_operations_as_the_lesson_tells_them():
    def slots(devices) -> float:
        names = [op.name for op in EIGHT_OPERATIONS]
        placement = dict(zip(names, devices, strict=True))
        return makespan(run_placement(EIGHT_OPERATIONS, placement, LINK_TAKES))

    assert slots([0] * 8) == total_work(EIGHT_OPERATIONS) == 26
    assert slots([0, 0, 0, 0, 0, 0, 0, 1]) == 23
    times = [slots(devices) for devices in product([0, 1], repeat=8)]
    assert min(times) == 19 and sum(time < 22 for time in times) == 10
    exec(solved(read_lesson(Path(__file__).parent).code("13b-place")), names := {})
    found = run_placement(EIGHT_OPERATIONS, names["by_hand"], LINK_TAKES)
    assert makespan(found) == 19
    sent = transfers_in([run.operation for run in found])
    assert {name.split()[0] for name in sent} == {"x", "y2", "loss"}
