"""The bytes of a step are those of 10b's rings, of 17's ledger and of real ranks."""

from dataclasses import replace

import pytest
import torch

from parallel_by_hand.collectives.all_reduce_costs import predicted_seconds
from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.scale.known_gpus import A100
from parallel_by_hand.scale.step_arithmetic import HOST_ADAM, HOST_LINK
from parallel_by_hand.scale.step_messages import link_cost_of, link_of
from parallel_by_hand.scale.training_plan import Model, Strategy
from parallel_by_hand.sharding.ledger import MIXED, SINGLE, StateBytes
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.pixel_model import (
    PixelModel,
    SplitPixelModel,
    pixel_batches,
)
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from parallel_by_hand.tensor_parallel.split_block import (
    ENDS,
    split_block,
    sum_whole_parameters,
)
from sidebyside import MessageMeter, device, run_ranks
from tests.parallel_by_hand.scale.small_steps import FREE, SMALL, simulate

LORA = StateBytes(2, 0, 0)


def test_a_group_that_leaves_its_node_uses_the_slow_link():
    cluster = replace(A100, nodes=8)
    spans = {
        (8, 2, 4): ("within", "between", "between"),
        (16, 1, 4): ("between", "between", "between"),
        (2, 4, 8): ("within", "within", "between"),
        (6, 4, 2): ("between", "between", "between"),
    }
    for (tensor, data, pipeline), links in spans.items():
        strategy = Strategy(data=data, tensor=tensor, pipeline=pipeline)
        groups = "tensor", "data", "pipeline"
        assert tuple(link_of(g, cluster, strategy) for g in groups) == links


def test_a_ring_uses_the_cards_of_the_node_with_the_fewest_members():
    cluster = replace(A100, nodes=8, ring_of_all_cards=True)
    for tensor, cards in (16, 8), (6, 2), (12, 4):
        link = link_cost_of("tensor", cluster, Strategy(data=8, tensor=tensor))
        fastest = cluster.link_within.bandwidth
        assert link.bandwidth == min(cards * cluster.link_between.bandwidth, fastest)


def test_data_parallel_is_10bs_ring():
    step = simulate(data=8, batch=8)
    alpha, bandwidth = A100.link_within
    size = 2 * SMALL.numbers
    assert step.sent["data"] == pytest.approx(2 * 7 / 8 * size, rel=1e-5)
    ring = predicted_seconds("ring", 8, size, alpha, 1 / bandwidth)
    assert step.spent["data"] == pytest.approx(ring, rel=1e-4)


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_zero_sends_what_17_counts(micro_batches):
    half = 7 / 8 * 2 * SMALL.numbers
    halves = {0: 2, 1: 2, 2: micro_batches + 1, 3: 3 * micro_batches}
    for stage, expected in halves.items():
        step = simulate(batch=8 * micro_batches, data=8, shard_stage=stage)
        assert step.sent["data"] == pytest.approx(expected * half, rel=1e-5)


def test_adapters_need_two_thirds_of_the_products_and_send_little():
    whole, frozen = (
        simulate(data=2, cluster=FREE, state=state) for state in (MIXED, LORA)
    )
    assert 2 / 3 < frozen.seconds / whole.seconds < 3 / 4, "scores have two gradients"
    assert frozen.model_utilisation == pytest.approx(whole.model_utilisation)
    assert frozen.sent["data"] == pytest.approx(0.01 * whole.sent["data"], 1e-4)
    assert frozen.memory.optimiser == pytest.approx(0.01 * whole.memory.optimiser, 1e-4)


@pytest.mark.parametrize("shard_stage", range(4))
def test_an_off_loaded_optimiser_takes_its_shard_over_the_hosts_link(shard_stage):
    numbers = SMALL.numbers / (4 if shard_stage else 1)
    state = MIXED._replace(optimiser=0)
    step = simulate(data=4, shard_stage=shard_stage, state=state)
    expected = 4 * numbers / HOST_LINK + 4 * numbers * HOST_ADAM
    assert step.ends[0].update == pytest.approx(expected, rel=1e-4)


def bytes_of_sequence_parallel() -> int:
    block = make_transformer_block(32, 4)
    mine = split_block(block, ENDS["gather twice"]).to(device())
    x = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))
    x = own_positions(x.to(device())).contiguous().requires_grad_()
    with messages_of_ours(), MessageMeter() as meter:
        mine(x).square().mean().backward()
        sum_whole_parameters(mine)
    return meter.bytes_sent


def bytes_of_words() -> int:
    [(tokens, labels)] = pixel_batches(2, 1)
    split = SplitPixelModel(PixelModel(32, 4), "tensor").to(device())
    with messages_of_ours(), MessageMeter() as meter:
        split(tokens.to(device()), labels.to(device())).backward()
    return meter.bytes_sent


LAYER = Model(1, 32, 4, 8, vocabulary=0)
WORDS = Model(1, 32, 4, sequence=32, vocabulary=17)


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    ("count", "model", "sequence"),
    [(bytes_of_sequence_parallel, LAYER, True), (bytes_of_words, WORDS, False)],
)
def test_ranks_send_the_predicted_bytes(count, model, sequence, ranks):
    options = {"micro_batch": 2, "sequence_parallel": sequence, "state": SINGLE}
    step = simulate(2, model=model, tensor=ranks, **options)
    assert run_ranks(count, world_size=ranks) == ranks * [step.sent["tensor"]]
