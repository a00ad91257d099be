"""Experts are shared out: what a GPU keeps, sends, and which plan is best."""

from dataclasses import replace

import pytest

from parallel_by_hand.scale.known_gpus import GPUS
from parallel_by_hand.scale.known_models import KNOWN_MODELS
from parallel_by_hand.scale.legal_strategies import TODAY
from parallel_by_hand.scale.plan_search import rank_of_split, survey_strategies
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.training_plan import Strategy

MIXTRAL = KNOWN_MODELS["mixtral-8x7b"]
EXPERTS = 32 * 8 * MIXTRAL.mlp_matrices
TOKENS = 2 * 4096  # of a GPU's batch; each goes to two experts


def simulate(nodes=1, batch=16, **degrees):
    cluster = replace(GPUS["H100"], nodes=nodes)
    return simulate_step(MIXTRAL, cluster, Strategy(overlap=True, **degrees), batch)


def test_a_token_meets_two_experts_of_eight():
    # Jiang et al. 2024 (Mixtral of Experts): 47 B parameters, 13 B of them active
    assert MIXTRAL.numbers == pytest.approx(46.7e9, rel=2e-3)
    assert MIXTRAL.active_numbers == pytest.approx(12.9e9, rel=2e-3)
    assert MIXTRAL.numbers - MIXTRAL.active_numbers == EXPERTS * 6 // 8


@pytest.mark.parametrize("expert", [2, 8])
def test_ranks_that_share_out_experts_keep_fewer_and_send_tokens(expert):
    everywhere, shared = (
        simulate(data=8, shard_stage=1, expert=e) for e in (1, expert)
    )
    less = EXPERTS * (1 - 1 / expert)
    for part in "parameters", "gradients":
        kept, of_all = (getattr(s.memory, part) for s in (shared, everywhere))
        assert of_all - kept == pytest.approx(2 * less)
    assert shared.memory.optimiser == pytest.approx(everywhere.memory.optimiser)
    one_way = TOKENS * 2 * 2 * MIXTRAL.hidden * (1 - 1 / expert)
    assert shared.sent["expert"] == 32 * 4 * one_way, "there and home, forward and back"
    assert sum(shared.spent.values()) == pytest.approx(shared.seconds)


def test_gradients_of_experts_are_summed_by_those_that_have_the_same():
    all_ranks, pairs = (simulate(2, 32, data=16, expert=e) for e in (1, 8))
    numbers = MIXTRAL.numbers - EXPERTS, EXPERTS
    ring = [2 * 2 * (n - 1) / n for n in (16, 2)]
    assert all_ranks.sent["data"] == pytest.approx(ring[0] * sum(numbers), rel=1e-3)
    expected = ring[0] * numbers[0] + ring[1] * numbers[1] / 8
    assert pairs.sent["data"] == pytest.approx(expected, rel=1e-3)
    small = replace(GPUS["H100"], gpus_per_node=4, nodes=4)  # experts in two nodes
    over_cards = simulate_step(MIXTRAL, small, pairs.strategy, 32)
    assert over_cards.spent["expert"] > 3 * pairs.spent["expert"]


@pytest.mark.everything
def test_megatrons_split_of_mixtral_is_within_a_hundredth_of_the_best():
    cluster = replace(GPUS["H100"], nodes=8)
    survey = survey_strategies(MIXTRAL, cluster, 256, ways=TODAY)
    # Megatron-LM's example for 64 H100: tensor 1, pipeline 4, experts over 8 ranks
    *_, own, first = rank_of_split(survey, (16, 1, 4))
    assert own.seconds < 1.01 * first.seconds
    assert own.strategy.expert > 1 and 0.4 < own.model_utilisation < 0.5
