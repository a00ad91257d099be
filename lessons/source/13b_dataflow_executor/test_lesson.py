"""Lesson 13b: the executor keeps its rules, computes what autograd does, is bounded.

Rules and bounds are tested on a counted clock, results on real threads. Nothing here
asserts how long something takes.
"""

import random
from itertools import product
from pathlib import Path
from threading import Barrier

import pytest
import torch

from parallel_by_hand.dataflow.dataflow_executor import execute_dataflow
from parallel_by_hand.dataflow.operations import (
    Operation,
    longest_path,
    placed,
    placed_anywhere,
    random_operations,
    total_work,
    transfers_in,
    with_transfers,
)
from parallel_by_hand.dataflow.placement_heuristics import (
    EIGHT_OPERATIONS,
    HEURISTICS,
    LINK_TAKES,
    in_order_of_inputs,
    run_placement,
)
from parallel_by_hand.dataflow.simulated_devices import (
    SimulatedDevices,
    dataflow_letters,
    devices_in,
    makespan,
    simulate_dataflow,
)
from parallel_by_hand.dataflow.thread_devices import ThreadDevices
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


def test_a_machine_refuses_two_at_a_time_and_waiting_for_nothing():
    machine = SimulatedDevices([0])
    with pytest.raises(RuntimeError, match="nothing is running"):
        machine.wait()
    machine.launch(0, Operation("a"))
    with pytest.raises(RuntimeError, match="device 0 is busy: b must wait"):
        machine.launch(0, Operation("b"))


def test_the_six_operations_take_seven_slots_the_longest_path():
    from .checks import SMALL

    assert makespan(simulate_dataflow(SMALL)) == 7 == longest_path(SMALL)
    assert total_work(SMALL) == 10


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


def test_training_stays_equal_to_plain_sgd_after_every_step():
    weights, images, labels = small_network()
    plain, mine = weights, weights
    placement = by_branch(graph_of_two_branches(weights, images, labels))
    for _ in range(8):
        expected = plain_gradients(plain, images, labels)
        plain = {name: plain[name] - 0.5 * expected[f"d{name}"] for name in plain}
        found = run_two_branches(mine, images, labels, placement).values
        mine = {name: found[name] - 0.5 * found[f"d{name}"] for name in mine}
        assert largest_gap(mine, plain) <= 1e-6
    assert largest_gap(plain, weights) > 1e-3, "it has learned something"


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


# Transfers --------------------------------------------------------------------------


def test_a_value_is_sent_once_to_each_device_that_reads_it():
    graph = [
        Operation("a", device=0),
        *(Operation(f"b{i}", ("a", "a"), device=1) for i in range(3)),
        Operation("c", ("a", "b0"), device=2),
        Operation("d", ("a",), device=0),
    ]
    crossed = with_transfers(graph, takes=2)
    assert transfers_in(crossed) == ["a 0→1", "a 0→2", "b0 1→2"]
    names = [op.name for op in crossed]
    assert names[:6] == [op.name for op in graph]
    home = {op.name: op.device for op in crossed}
    for op in crossed[:6]:
        assert all(home[name] == op.device for name in op.inputs)
    assert devices_in(crossed) == [0, 1, 2, "0→1", "0→2", "1→2"]
    assert makespan(simulate_dataflow(crossed)) == 1 + 2 + 1 + 2 + 1


def test_by_branch_two_values_cross_the_network():
    graph = graph_of_two_branches(*small_network())
    crossed = with_transfers(placed(graph, by_branch(graph)))
    assert transfers_in(crossed) == ["y_a 0→1", "dy 1→0"]


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


def test_grahams_bound_is_reached():
    ops = [Operation("a"), Operation("b"), Operation("c", takes=2)]
    assert makespan(simulate_dataflow(placed_anywhere(ops), [0, 1])) == 3
    assert makespan(simulate_dataflow(placed_anywhere(ops[::-1]), [0, 1])) == 2


def test_with_placements_the_bound_fails_now_and_then():
    above = 0
    for graph, p, _ in graphs_and_devices():
        bound = (2 - 1 / p) * max(total_work(graph) / p, longest_path(graph))
        above += makespan(simulate_dataflow(graph, range(p))) > bound
    assert 0 < above < 250


def test_the_numbers_in_the_why_of_the_counterexample():
    graph = solution_of("13b-beyond")["beyond"]
    assert (total_work(graph), longest_path(graph)) == (8, 2)
    for order in graph, graph[::-1]:
        assert makespan(simulate_dataflow(order, [0, 1])) == 8
    hand = [Operation("a"), Operation("b")]
    assert makespan(simulate_dataflow(hand, [0, 1])) == 2


# Placements -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", HEURISTICS.values())
def test_a_rule_places_every_operation_and_ignores_the_order_of_the_list(rule):
    dice = random.Random(2)
    for devices in 1, 2, 3, 5:
        graph = random_operations(dice, 20, devices)
        placement = rule(graph, devices)
        assert set(placement) == {op.name for op in graph}
        assert set(placement.values()) <= set(range(devices))
        assert rule(EIGHT_OPERATIONS, devices) == rule(EIGHT_OPERATIONS, devices)
    assert in_order_of_inputs(EIGHT_OPERATIONS[::-1])[0].name == "x"


def test_round_robin_deals_and_least_communication_keeps_a_chain_together():
    chain = [Operation("a"), Operation("b", ("a",)), Operation("c", ("b",))]
    assert list(HEURISTICS["round robin"](chain, 2).values()) == [0, 1, 0]
    assert set(HEURISTICS["least communication"](chain, 2).values()) == {0}


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


def test_the_picture_in_letters():
    graph = with_transfers([Operation("a"), Operation("b", ("a",), 1)], takes=2)
    assert dataflow_letters(simulate_dataflow(graph), columns=4).splitlines() == [
        "device 0 |W...| idle 75 %",
        "device 1 |...W| idle 75 %",
        "link 0→1 |.Tt.| idle 50 %",
    ]
