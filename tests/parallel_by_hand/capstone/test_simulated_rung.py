"""Lesson 19's simulator says of each rung what counting says."""

import pytest

from parallel_by_hand.capstone.ladder_rungs import PLANS
from parallel_by_hand.capstone.language_model import SMALL_MODEL
from parallel_by_hand.capstone.rung_predictions import (
    numbers_of_rung_layers,
    predict_rung,
)
from parallel_by_hand.capstone.simulated_rung import (
    simulate_rung,
    simulated_bytes,
    simulated_state,
)

KNOWN = [name for name in PLANS if name not in ("sequence", "context")]


@pytest.mark.parametrize("name", KNOWN)
def test_lesson_19s_simulator_says_the_same_bytes(name):
    by_group = simulated_bytes(name)
    predicted = predict_rung(SMALL_MODEL, PLANS[name])
    assert [sum(sent.values()) for sent in by_group] == [c.sent for c in predicted]


@pytest.mark.parametrize("name", PLANS)
def test_lesson_19s_simulator_says_the_same_state_and_bubble(name):
    predicted = predict_rung(SMALL_MODEL, PLANS[name])
    borrowed = 0
    if PLANS[name].zero == "ZeRO-3":  # the largest layer, in two equal halves
        largest = max(map(sum, numbers_of_rung_layers(SMALL_MODEL)))
        borrowed = 4 * (largest + largest % 2)
    for stage, cost in zip(simulated_state(name), predicted, strict=True):
        assert stage == (cost.parameters - borrowed, cost.gradients, cost.momentum)
    assert simulate_rung(name).bubble == pytest.approx(predicted[0].bubble, abs=1e-9)


def test_lesson_19s_sequence_parallel_gathers_once_more():
    block = simulate_rung("sequence").sent["tensor"]
    assert block == simulate_rung("tensor").sent["tensor"]  # 16b's first form


def test_lesson_19s_context_parallel_gathers_once_more():
    [cost], plan = predict_rung(SMALL_MODEL, PLANS["context"]), PLANS["DDP (ours)"]
    [data] = predict_rung(SMALL_MODEL, plan)
    assert cost.sent - data.sent == 65_536  # as the lesson says
    assert simulate_rung("context").sent["tensor"] == 3 / 2 * 65_536
