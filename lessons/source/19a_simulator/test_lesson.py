"""The simulator says what its parts say, and what two real ranks count."""

from dataclasses import replace

import pytest

from parallel_by_hand.scale.held_to_this_machine import (
    fastest_first,
    hold_to_this_machine,
)
from parallel_by_hand.scale.known_gpus import GPUS
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.step_arithmetic import layer_flops, layer_seconds
from parallel_by_hand.scale.this_machine import strategies_of_two
from parallel_by_hand.scale.training_plan import Cluster, Link, Model, Strategy

A100 = GPUS["A100"]
LESSONS_MODEL = Model(
    layers=48, hidden=6144, heads=64, sequence=2048, vocabulary=51_200
)


LESSONS_CLUSTER = replace(A100, nodes=8)
LESSONS_STRATEGY = Strategy(
    data=2, tensor=8, pipeline=4, recomputation="full", fused_attention=True
)


def test_wide_layers_reach_more_of_the_peak():
    reached = []
    for hidden in (1536, 6144, 24_576):
        shape = replace(LESSONS_MODEL, hidden=hidden)
        seconds = sum(layer_seconds(shape, A100, Strategy(tensor=8)))
        reached.append(layer_flops(shape) / seconds)
    assert reached == sorted(reached)


HELD = Model(layers=3, hidden=32, heads=4, sequence=8, vocabulary=0)
PACED = Link(0.001, 1e6)


@pytest.fixture(scope="module")
def held():
    """Real steps of two ranks of a stack of three blocks, for each strategy."""
    machine = Cluster(2, 1, 1e9, 1.0, 1e9, 1e9, PACED, PACED)
    return hold_to_this_machine(machine, HELD, 8, strategies_of_two(8), rounds=1)


@pytest.mark.parametrize("way", strategies_of_two(8))
def test_two_ranks_send_the_predicted_bytes_and_hold_the_predicted_parameters(
    held, way
):
    found = held[way]
    assert found.bytes_agree
    held_here = [measured.parameters for measured in found.measured]
    ledgers = found.step.ledgers * (1 if way == "pipeline" else 2)
    assert held_here == [ledger.parameters for ledger in ledgers]


@pytest.mark.everything
@pytest.mark.parametrize(
    ("shape", "batch", "order"),
    [
        (Model(2, 96, 4, 16, 0), 4, ["pipeline", "tensor", "data"]),
        (Model(4, 64, 4, 64, 0), 8, ["data", "tensor"]),
    ],
)
def test_over_a_slow_link_measured_steps_rank_as_predicted(shape, batch, order):
    """On a busy machine a step may be delayed by as much as the next way takes."""
    machine = Cluster(2, 1, 1e12, 1.0, 1e9, 1e12, PACED, PACED)
    measured = []
    for _ in range(3):
        found = hold_to_this_machine(machine, shape, batch, order, 1, slow=PACED)
        assert fastest_first(found, measured=False) == order
        measured.append(fastest_first(found, measured=True))
    assert order in measured


def lessons_step(**changes):
    strategy = replace(LESSONS_STRATEGY, **changes)
    return simulate_step(LESSONS_MODEL, LESSONS_CLUSTER, strategy, 16)


def test_a_slow_link_hides_backward_less_one_layer_and_a_sixth_of_it_is_saved():
    small = Model(24, 2304, 24, 2048, 51_200)
    plan = Strategy(16, micro_batch=4, fused_attention=True)

    def both(bandwidth: float, contention: float = 0.0) -> list:
        link = Link(20e-6, bandwidth)
        slow = replace(A100, nodes=2, link_between=link, contention=contention)
        plans = plan, replace(plan, overlap=True)
        return [simulate_step(small, slow, one, 64) for one in plans]

    after, during = both(2e9)
    backward, messages = after.stages[0].backward.total, after.ends[0].messages
    assert messages > backward
    hidden = after.seconds - during.seconds
    most = backward * 23 / 24
    assert 0.9 * most < hidden <= most, "24 messages also cost more alphas than one"
    after, real = both(2e9, A100.contention)
    times = [round(one.seconds, 2) for one in (after, during, real)]
    assert times == [0.88, 0.60, 0.84]
    assert (after.seconds - real.seconds) / hidden == pytest.approx(1 / 6, abs=0.01)
    after, during = both(4e9)
    better = (after.seconds - during.seconds) / after.ends[0].messages
    assert better > hidden / messages


def test_the_first_stage_sends_most_and_has_one_neighbour_and_the_word_table():
    step = lessons_step()
    first, middle = step.sent_by_ranks[:2]
    assert step.sent == first and first["pipeline"] < middle["pipeline"]
    message = 2 * LESSONS_MODEL.sequence * LESSONS_MODEL.hidden
    table = 2 * LESSONS_MODEL.vocabulary * LESSONS_MODEL.hidden / 8
    assert middle["pipeline"] == 2 * 8 * message
    assert first["pipeline"] == 8 * message + table, "a ring of two sends it once"
    assert first["data"] > middle["data"] + table


@pytest.mark.parametrize("fused", [False, True])
def test_full_recomputation_is_busiest_and_slowest(fused):
    names = ("none", "full") if fused else ("none", "selective", "full")
    found = {
        name: lessons_step(recomputation=name, fused_attention=fused) for name in names
    }
    busiest = max(found.values(), key=lambda step: step.hardware_utilisation)
    slowest = max(found.values(), key=lambda step: step.seconds)
    assert busiest is slowest is found["full"]
    by_time = sorted(found, key=lambda name: found[name].seconds)
    by_model = sorted(found, key=lambda name: -found[name].model_utilisation)
    assert by_time == by_model


def test_fused_attention_is_faster_than_selective_recomputation_and_keeps_less():
    plain = lessons_step(recomputation="selective", fused_attention=False)
    fused = lessons_step(recomputation="none")
    assert fused.seconds < plain.seconds
    assert fused.memory.activations < plain.memory.activations
