"""Torch averages models as we do; agreement on a long ring takes as long as said."""

import math

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

from parallel_by_hand.decentralised.gossip import (
    agreement_factor,
    ring_mixing_matrix,
)
from parallel_by_hand.decentralised.local_sgd import (
    flat_parameters,
    local_batches,
    local_step,
    train_local_sgd,
)
from parallel_by_hand.sgd.digits_network import (
    digits_network,
)
from sidebyside import run_ranks


def average_with_torch(every: int, steps: int) -> torch.Tensor:
    model, averager = digits_network(), PeriodicModelAverager(every, every - 1)
    for mine in local_batches(dist.get_rank(), dist.get_world_size(), steps):
        local_step(model, mine)
        for parameter in model.parameters():  # it leaves out what has no gradient
            parameter.grad = torch.zeros_like(parameter)
        averager.average_parameters(list(model.parameters()))
    return flat_parameters(model).cpu()


def test_the_librarys_averager_meets_as_we_do():
    ours = run_ranks(train_local_sgd, 4, 12, world_size=2)
    for run, theirs in zip(
        ours, run_ranks(average_with_torch, 4, 12, world_size=2), strict=True
    ):
        torch.testing.assert_close(run.history[-1], theirs, atol=1e-5, rtol=0)


def test_twice_the_peers_need_four_times_the_rounds_on_a_long_ring():
    for ranks, near in ((8, 0.2), (32, 0.02), (128, 0.01)):
        few, many = (
            agreement_factor(ring_mixing_matrix(n)) for n in (ranks, 2 * ranks)
        )
        assert math.log(few) / math.log(many) == pytest.approx(4, abs=4 * near)
