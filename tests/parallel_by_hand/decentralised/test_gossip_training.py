"""Gossip trains, with two models sent in each step."""

from parallel_by_hand.decentralised.gossip import (
    ring_mixing_matrix,
)
from parallel_by_hand.decentralised.gossip_training import train_by_gossip
from parallel_by_hand.decentralised.local_sgd import (
    drift,
    loss_of,
)
from sidebyside import run_ranks


def test_gossip_trains_and_sends_two_models_per_step():
    runs = run_ranks(train_by_gossip, ring_mixing_matrix(4), 64, world_size=4)
    for run in runs:
        assert run.meter.bytes_sent == 64 * 2 * 4 * 1210
        assert run.meter.messages_sent == 64 * 2
        assert loss_of(run.history[-1]) < 0.6 * loss_of(run.history[0])
    assert 0 < drift(runs)[-1] < 1
