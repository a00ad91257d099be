"""Each rule gives every operation a device."""

from parallel_by_hand.dataflow.operations import Operation
from parallel_by_hand.dataflow.placement_heuristics import (
    HEURISTICS,
)


def test_round_robin_deals_and_least_communication_keeps_a_chain_together():
    chain = [Operation("a"), Operation("b", ("a",)), Operation("c", ("b",))]
    assert list(HEURISTICS["round robin"](chain, 2).values()) == [0, 1, 0]
    assert set(HEURISTICS["least communication"](chain, 2).values()) == {0}
