"""The simulator says what its parts say, and what two real ranks count."""

from dataclasses import replace

import pytest

from parallel_by_hand.pipeline.schedules import gpipe, one_f_one_b
from parallel_by_hand.scale.held_to_this_machine import (
    fastest_first,
    hold_to_this_machine,
)
from parallel_by_hand.scale.known_gpus import A100
from parallel_by_hand.scale.simulated_step import simulate_step
from parallel_by_hand.scale.step_arithmetic import layer_flops, layer_seconds
from parallel_by_hand.scale.this_machine import strategies_of_two
from parallel_by_hand.scale.training_plan import Cluster, Link, Model, Strategy
from tests.parallel_by_hand.scale.small_steps import FREE, simulate

from .checks import _simulated_seconds_with_travel

LESSONS_MODEL = Model(
    layers=48, hidden=6144, heads=64, sequence=2048, vocabulary=51_200
)


LESSONS_CLUSTER = replace(A100, nodes=8)
LESSONS_STRATEGY = Strategy(data=2, tensor=8, pipeline=4, recomputation="full")


def test_wide_layers_reach_more_of_the_peak():
    reached = []
    for hidden in (1536, 6144, 24_576):
        shape = replace(LESSONS_MODEL, hidden=hidden)
        seconds = sum(layer_seconds(shape, A100, Strategy(tensor=8)))
        reached.append(layer_flops(shape) / seconds)
    assert reached == sorted(reached)


@pytest.mark.parametrize("ranks,batch", [(2, 4), (4, 8), (8, 64)])
def test_where_senders_wait_gpipe_has_a_larger_bubble_than_1f1b(ranks, batch):
    """GPipe's messages go one way first: the last stage waits for each of them, and on
    the way back the first one does. 1F1B's two stages send in turns.
    """
    slow = replace(FREE, link_within=Link(0, 2e9))
    layers = Model(8, 512, 8, 256, vocabulary=0)
    found, alternating = (
        simulate(batch, slow, layers, pipeline=ranks, schedule=name)
        for name in ("gpipe", "1f1b")
    )
    assert found.bubble > alternating.bubble
    if ranks == 2:
        computing = found.stages[0].computing
        message = found.stages[0].forward.pipeline
        length = (batch + 1) * computing + 2 * batch * message
        waiting = 1 - batch * (computing + message) / length
        assert found.bubble == pytest.approx(waiting) and waiting > 0.4
        assert alternating.bubble == pytest.approx(1 / (batch + 1))


@pytest.mark.parametrize(("ranks", "batch"), [(2, 4), (4, 8), (8, 64)])
def test_where_senders_go_on_1f1b_has_a_larger_bubble_than_gpipe(ranks, batch):
    found, alternating = (
        _simulated_seconds_with_travel(make(ranks, batch), [1] * ranks, [2] * ranks, 1)
        for make in (gpipe, one_f_one_b)
    )
    assert found == 3 * (batch + ranks - 1) + 2 * (ranks - 1) < alternating


def test_a_larger_last_stage_makes_the_bubble_larger_than_the_formula():
    formula = 3 / (8 + 3)
    for words in (51_200, 512_000):
        model = replace(LESSONS_MODEL, vocabulary=words)
        step = simulate_step(model, LESSONS_CLUSTER, LESSONS_STRATEGY, 16)
        assert step.bubble > formula


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


def test_a_slow_link_hides_backward_less_one_layer():
    small = Model(24, 2304, 24, 2048, 51_200)
    slow = replace(A100, nodes=2, link_between=Link(20e-6, 6e9))
    plan = Strategy(data=16, micro_batch=4, recomputation="selective")
    after = simulate_step(small, slow, plan, 64)
    during = simulate_step(small, slow, replace(plan, overlap=True), 64)
    backward = after.stages[0].backward.total
    assert after.ends[0].messages > backward
    hidden = after.seconds - during.seconds
    most = backward * 23 / 24
    assert 0.9 * most < hidden <= most, "24 messages also cost more alphas than one"
    assert [round(step.seconds, 2) for step in (after, during)] == [1.74, 1.30]
    faster = replace(slow, link_between=Link(20e-6, 8e9))
    better = simulate_step(small, faster, replace(plan, overlap=True), 64)
    share_hidden = hidden / after.ends[0].messages
    after = simulate_step(small, faster, plan, 64)
    assert (after.seconds - better.seconds) / after.ends[0].messages > share_hidden


def test_fewer_micro_batches_for_each_replica_leave_more_to_wait():
    model = Model(80, 12_288, 96, 2048, 51_200)
    strategy = Strategy(data=128, tensor=8, pipeline=10, recomputation="full")
    cluster = replace(A100, nodes=1280)
    step = simulate_step(model, cluster, strategy, 3072)
    assert strategy.micro_batches(3072) == 24
    assert step.spent["waiting"] > step.seconds / 4
    assert simulate_step(model, cluster, strategy, 6144).bubble < step.bubble


def test_the_first_stage_sends_most_and_has_one_neighbour_and_the_word_table():
    step = lessons_step()
    first, middle = step.sent_by_ranks[:2]
    assert step.sent == first and first["pipeline"] < middle["pipeline"]
    message = 2 * LESSONS_MODEL.sequence * LESSONS_MODEL.hidden
    table = 2 * LESSONS_MODEL.vocabulary * LESSONS_MODEL.hidden / 8
    assert middle["pipeline"] == 2 * 8 * message
    assert first["pipeline"] == 8 * message + table, "a ring of two sends it once"
    assert first["data"] > middle["data"] + table


@pytest.mark.parametrize("parallel", [False, True])
def test_full_recomputation_is_busiest_and_slowest(parallel):
    found = {
        name: lessons_step(recomputation=name, sequence_parallel=parallel)
        for name in ("none", "selective", "full")
    }
    busiest = max(found.values(), key=lambda step: step.hardware_utilisation)
    slowest = max(found.values(), key=lambda step: step.seconds)
    assert busiest is slowest is found["full"]
    by_time = sorted(found, key=lambda name: found[name].seconds)
    by_model = sorted(found, key=lambda name: -found[name].model_utilisation)
    assert by_time == by_model


def test_waiting_idle_and_bubble_are_three_shares():
    step = lessons_step()
    spent = step.spent
    messages = spent["tensor"] + spent["pipeline"] + spent["data"]
    assert step.idle * step.seconds == pytest.approx(messages + spent["waiting"])
    assert spent["waiting"] / step.seconds < step.bubble < step.idle
