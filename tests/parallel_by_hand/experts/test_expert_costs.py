"""What a layer of experts holds and sends, each way that ranks share it."""

import pytest

from parallel_by_hand.experts.expert_costs import (
    HIDDEN,
    TOKENS,
    WIDTH,
    cost_of_experts,
    numbers_of_experts,
)
from parallel_by_hand.experts.expert_layer import make_expert_layer
from sidebyside import run_ranks


def mean_sent(way: str, experts: int = 8) -> float:
    found = run_ranks(cost_of_experts, way, experts, world_size=4)
    return sum(cost.sent for cost in found) / 4


@pytest.mark.parametrize("experts", [8, 32])
def test_rows_travel_k_times_there_and_back_however_many_experts_there_are(experts):
    shared = WIDTH * (experts + 1) * 4  # the router and the norm
    counts = 3 * 8 * experts * (1 + 1 / 4)  # all-gather and all-to-all
    rest = 2 * 3 / 4 * shared + counts
    away = (mean_sent("experts", experts) - rest) / (WIDTH * 4)  # of all choices
    assert away.is_integer()  # nothing else travels
    assert away == pytest.approx(2 * TOKENS * 3 / 4, rel=0.06)  # the rest are at home


def test_ddp_sends_all_parameters_and_tensor_parallel_all_tokens():
    total = numbers_of_experts(make_expert_layer(WIDTH, HIDDEN))["total"]
    counts = 3 * 8 * 8
    assert mean_sent("DDP") == pytest.approx(2 * 3 / 4 * 4 * total + counts, rel=1e-3)
    gates = 2 * 3 / 4 * TOKENS * 2 * 4  # their gradients
    tokens = 2 * 2 * 3 / 4 * TOKENS * WIDTH * 4
    assert mean_sent("tensor") == tokens + gates
