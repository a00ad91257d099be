"""Every rung is one training: the same numbers, and the cost that was predicted."""

from functools import cache
from types import SimpleNamespace

import pytest
import torch

from lessons.props.the_ladder import update_late
from parallel_by_hand.capstone.experts_rung import (
    EXPERTS_MODEL,
    climb_experts,
    expert_parallel,
    predict_experts,
)
from parallel_by_hand.capstone.ladder_rungs import PLANS, climb_first
from parallel_by_hand.capstone.ladder_table import climb_predicted
from parallel_by_hand.capstone.language_model import SMALL_MODEL
from parallel_by_hand.capstone.rung_predictions import predict_rung
from parallel_by_hand.capstone.strategies import STRATEGIES
from parallel_by_hand.experts.beside_whole import sum_over_everyone


@cache
def first_trail(steps: int, dtype=torch.float32) -> torch.Tensor:
    """What the first rung leaves; it is climbed once, however many tests ask."""
    return climb_first(steps, dtype)[1]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_rung_equals_the_first_after_every_one_of_20_steps_as_predicted(name):
    rung = climb_predicted(name, first_trail(20, torch.float64), torch.float64)
    assert all(len(rank.gaps) == 20 for rank in rung.ranks)
    assert rung.gap <= 1e-12
    assert rung.as_predicted


@pytest.mark.parametrize("batch", [8, 16, 32])
def test_activations_travel_with_the_batch_and_gradients_do_not(batch):
    [tensor] = predict_rung(SMALL_MODEL, PLANS["tensor"], batch)
    [data] = predict_rung(SMALL_MODEL, PLANS["DDP (ours)"], batch)
    assert tensor.sent == 131_072 * batch // 8 and data.sent == 124_736


def test_context_parallel_keeps_less_than_ddp_of_long_texts_only():
    shares = []
    for length in 16, 4096:
        size = SMALL_MODEL._replace(length=length)
        [context] = predict_rung(size, PLANS["context"])
        [data] = predict_rung(size, PLANS["DDP (ours)"])
        shares.append(context.activations / data.activations)
    assert shares[0] > 1 and shares[1] < 0.1


def average_experts_too(training, mesh) -> None:
    """The planted bug."""
    expert_parallel(training, mesh)
    training.complete = lambda: sum_over_everyone(training.model, None)


def test_experts_equal_one_process_and_send_what_its_routers_predict():
    trail = climb_first(20, torch.float64, EXPERTS_MODEL)[1]
    for rank in climb_experts(trail):
        assert len(rank.gaps) == 20 and torch.tensor(rank.gaps).max() <= 1e-12
        assert (rank.cost.sent, rank.cost.state) == predict_experts(trail)
    for rank in climb_experts(trail[:3], average_experts_too):
        assert rank.gaps[0] > 1e-5


def test_a_late_update_takes_the_gradient_of_the_step_before():
    weight, taken = torch.nn.Parameter(torch.zeros(1)), []
    training = SimpleNamespace(
        model=torch.nn.ParameterList([weight]),
        update=lambda: taken.append(weight.grad.item()),
    )
    update_late(training, None)
    for gradient in (1.0, 2.0, 3.0):
        weight.grad = torch.tensor([gradient])
        training.update()
    assert taken == [1.0, 2.0]
