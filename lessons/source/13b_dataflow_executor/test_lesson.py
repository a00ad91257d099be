"""Lesson 13b: the executor keeps its rules, computes what autograd does, is bounded.

Rules and bounds are tested on a counted clock, results on real threads. Nothing here
asserts how long something takes.
"""

import random
from itertools import product
from pathlib import Path

import pytest
import torch

from parallel_by_hand.dataflow.dataflow_executor import execute_dataflow
from parallel_by_hand.dataflow.operations import (
    Operation,
    longest_path,
    placed_anywhere,
    random_operations,
    total_work,
    transfers_in,
)
from parallel_by_hand.dataflow.placement_heuristics import (
    EIGHT_OPERATIONS,
    HEURISTICS,
    LINK_TAKES,
    run_placement,
)
from parallel_by_hand.dataflow.simulated_devices import makespan, simulate_dataflow
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


def solution_of(id: str) -> dict:
    names = {"Operation": Operation}
    exec(solved(read_lesson(Path(__file__).parent).code(id)), names)
    return names


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


# The bound --------------------------------------------------------------------------


def graphs_and_devices():
    dice = random.Random(1966)
    for number in range(500):
        devices = dice.randint(1, 6)
        yield random_operations(dice, dice.randint(1, 25), devices), devices, number


def test_with_one_shared_queue_grahams_bound_holds():
    for graph, p, number in graphs_and_devices():
        floor = max(total_work(graph) / p, longest_path(graph))
        random.Random(number).shuffle(graph)
        found = makespan(simulate_dataflow(placed_anywhere(graph), range(p)))
        assert floor <= found + 1e-9 <= (2 - 1 / p) * floor + 2e-9
        idle = p * found - total_work(graph)
        assert idle <= (p - 1) * longest_path(graph) + 1e-9, "the step of the proof"


def test_the_numbers_in_the_why_of_the_counterexample():
    graph = solution_of("13b-beyond")["beyond"]
    assert (total_work(graph), longest_path(graph)) == (8, 2)
    for order in graph, graph[::-1]:
        assert makespan(simulate_dataflow(order, [0, 1])) == 8
    hand = [Operation("a"), Operation("b")]
    assert makespan(simulate_dataflow(hand, [0, 1])) == 2


# Placements -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [13, 14])
def test_cheap_transfers_favour_the_longest_path_and_expensive_ones_few(seed):
    """What the lesson says of 200 random graphs, with other graphs too."""
    dice = random.Random(seed)
    graphs = [random_operations(dice, 16, 2) for _ in range(100)]
    for link, best in (0, "longest path first"), (16, "least communication"):
        total = {
            name: sum(
                makespan(run_placement(g, rule(g, 2), link))
                / max(total_work(g) / 2, longest_path(g))
                for g in graphs
            )
            for name, rule in HEURISTICS.items()
        }
        assert min(total, key=total.get) == best


def test_the_eight_operations_as_the_lesson_tells_them():
    def slots(devices) -> float:
        names = [op.name for op in EIGHT_OPERATIONS]
        placement = dict(zip(names, devices, strict=True))
        return makespan(run_placement(EIGHT_OPERATIONS, placement, LINK_TAKES))

    rules = [
        makespan(run_placement(EIGHT_OPERATIONS, rule(EIGHT_OPERATIONS, 2), LINK_TAKES))
        for rule in HEURISTICS.values()
    ]
    assert rules == [22, 22, 26]
    assert slots([0] * 8) == total_work(EIGHT_OPERATIONS) == 26
    assert slots([0, 0, 0, 0, 0, 0, 0, 1]) == 23
    times = [slots(devices) for devices in product([0, 1], repeat=8)]
    assert min(times) == 19 and sum(time < 22 for time in times) == 10
    by_hand = solution_of("13b-place")["by_hand"]
    found = run_placement(EIGHT_OPERATIONS, by_hand, LINK_TAKES)
    assert makespan(found) == 19
    sent = transfers_in([run.operation for run in found])
    assert {name.split()[0] for name in sent} == {"x", "y2", "loss"}
