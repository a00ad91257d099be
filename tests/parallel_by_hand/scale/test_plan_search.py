"""The planner beside brute force."""

from dataclasses import replace

import pytest

from parallel_by_hand.scale.known_gpus import A100
from parallel_by_hand.scale.legal_strategies import (
    SHORT,
    legal_strategies,
    why_no_strategy,
)
from parallel_by_hand.scale.plan_search import (
    bound_of,
    fastest_strategies,
    rank_of_split,
    split_of,
    survey_strategies,
)
from parallel_by_hand.scale.second_opinion import second_opinion, with_slower_links
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.training_plan import Model, why_impossible

SMALL = Model(layers=8, hidden=1024, heads=8, sequence=1024, vocabulary=50_000)
NODES = replace(A100, gpus_per_node=4, nodes=2, efficiency=0.6)


@pytest.fixture(scope="module")
def survey():
    return survey_strategies(SMALL, NODES, 16)


def test_memory_and_bounds_are_those_of_the_simulator(survey):
    for strategy in list(survey.memory)[::7]:
        step = simulate_step(SMALL, NODES, strategy, 16)
        assert survey.memory[strategy] == sum(step.memory)
        assert bound_of(SMALL, NODES, strategy, 16) <= step.seconds * (1 + 1e-9)
        assert step.fits == (strategy in survey.bounds)


@pytest.mark.parametrize("memory", [4e9, 1.5e9])
def test_the_search_finds_what_brute_force_finds(memory):
    cluster = replace(NODES, memory=memory)
    steps = [
        simulate_step(SMALL, cluster, s, 16)
        for s in legal_strategies(SMALL, cluster, 16)
    ]
    fitting = sorted((s for s in steps if s.fits), key=lambda step: step.seconds)
    best: dict = {}
    for step in fitting:
        best.setdefault(split_of(step.strategy), step.seconds)
    survey = survey_strategies(SMALL, cluster, 16)
    found = fastest_strategies(survey, 5)
    assert [step.seconds for step in found] == list(best.values())[:5]
    for place, (split, seconds) in enumerate(best.items(), 1):
        rank, splits, own, first = rank_of_split(survey, split)
        assert (rank, splits) == (place, len(best))
        assert (own.seconds, first.seconds) == (seconds, fitting[0].seconds)


def test_every_legal_strategy_can_be_simulated_and_no_two_are_equal():
    legal = list(legal_strategies(SMALL, NODES, 16))
    assert len(set(legal)) == len(legal)
    assert not any(why_impossible(SMALL, NODES, s, 16) for s in legal)
    assert all(s.gpus == NODES.gpus for s in legal)


def test_zero_over_context_ranks_and_three_sequences_at_a_time_are_tried():
    long = replace(SMALL, sequence=2 * SHORT)
    legal = list(legal_strategies(long, NODES, 6))
    assert any(s.data == 1 < s.context and s.shard_stage == 3 for s in legal)
    assert 3 in {s.micro_batch for s in legal}


def test_a_sentence_says_why_nothing_is_legal():
    assert why_no_strategy(SMALL, NODES, 16) == ""
    prime = replace(SMALL, heads=1, layers=1, hidden=1024)
    assert "cannot be cut" in why_no_strategy(prime, NODES, 3)
    assert "16 stages are more" in why_no_strategy(
        SMALL, replace(NODES, nodes=4), 16, {"pipeline": 16}
    )
    assert "does not divide" in why_no_strategy(SMALL, NODES, 16, {"tensor": 3})
    degrees = {"data": NODES.gpus, "tensor": 2, "pipeline": 1}
    assert "1 is not" in why_no_strategy(SMALL, NODES, 16, degrees)


def test_slower_links_change_nothing_within_a_node():
    node = replace(A100, nodes=1)
    assert second_opinion(SMALL, node, 16).loss == 0
    slower = with_slower_links(NODES)
    assert slower.link_within == NODES.link_within
    assert slower.link_between.bandwidth == 0.25 * NODES.link_between.bandwidth


def test_nothing_fits_and_nothing_is_legal_are_told_apart():
    assert second_opinion(SMALL, replace(NODES, memory=1e6), 16) is None
    with pytest.raises(ValueError, match="legal"):
        second_opinion(replace(SMALL, heads=7), NODES, 16)
