"""Each rule gives every operation a device."""

import random

import pytest

from parallel_by_hand.dataflow.operations import Operation, random_operations
from parallel_by_hand.dataflow.placement_heuristics import (
    EIGHT_OPERATIONS,
    HEURISTICS,
    operations_in_order_of_inputs,
)


@pytest.mark.parametrize("rule", HEURISTICS.values())
def test_a_rule_places_every_operation_and_ignores_the_order_of_the_list(rule):
    dice = random.Random(2)
    for devices in 1, 2, 3, 5:
        graph = random_operations(dice, 20, devices)
        placement = rule(graph, devices)
        assert set(placement) == {op.name for op in graph}
        assert set(placement.values()) <= set(range(devices))
        assert rule(EIGHT_OPERATIONS, devices) == rule(EIGHT_OPERATIONS, devices)
    assert operations_in_order_of_inputs(EIGHT_OPERATIONS[::-1])[0].name == "x"


def test_round_robin_deals_and_least_communication_keeps_a_chain_together():
    chain = [Operation("a"), Operation("b", ("a",)), Operation("c", ("b",))]
    assert list(HEURISTICS["round robin"](chain, 2).values()) == [0, 1, 0]
    assert set(HEURISTICS["least communication"](chain, 2).values()) == {0}
