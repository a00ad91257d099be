"""ZeRO-1 and ZeRO-2 in 16 bits, clipped, and with micro-batches."""

from functools import partial

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from parallel_by_hand.sharding.measured_ledger import (
    BUILT,
    digits_loss_for_ledger,
    make_digits_network,
    sgd_with_momentum,
)
from sidebyside import run_ranks


def train_with(strategy: str, steps=4, dtype=torch.float32, longest=None, parts=1):
    network = make_digits_network(dtype)
    trained = BUILT[strategy](network, sgd_with_momentum)
    found = []
    for step in range(steps):
        for part in range(parts):
            (digits_loss_for_ledger(network, parts * step + part) / parts).backward()
        trained.step(longest)
        found.append(parameters_to_vector(network.parameters()).detach())
    return torch.stack(found)


def train_with_all(**options) -> dict[str, torch.Tensor]:
    return {name: train_with(name, **options) for name in BUILT}


@pytest.mark.everything
def test_zero_equals_data_parallel_in_mixed_precision():
    for found in run_ranks(partial(train_with_all, dtype=torch.bfloat16)):
        assert found["DDP"].dtype == torch.bfloat16
        for name in ("ZeRO-1", "ZeRO-2"):
            assert torch.equal(found[name], found["DDP"])


def test_clipped_across_shards_they_stay_equal():
    for found in run_ranks(partial(train_with_all, longest=0.05), world_size=3):
        for name in BUILT:
            torch.testing.assert_close(found[name], found["DDP"], atol=1e-6, rtol=0)
    free = run_ranks(train_with, "DDP", world_size=3)[0]
    assert (found["DDP"] - free).abs().max() > 1e-4, "clipping did something"


def train_whole_batches() -> torch.Tensor:
    """What one process makes of two micro-batches of all ranks in each step."""
    network = make_digits_network()
    sgd = sgd_with_momentum(network.parameters())
    for step in range(4):
        sgd.zero_grad()
        for part in range(2):
            (digits_loss_for_ledger(network, 2 * step + part) / 2).backward()
        sgd.step()
    return parameters_to_vector(network.parameters()).detach()


@pytest.mark.everything
def test_accumulated_micro_batches_are_one_batch():
    [alone] = run_ranks(train_whole_batches, world_size=1)
    for found in run_ranks(partial(train_with_all, parts=2)):
        for name in BUILT:
            torch.testing.assert_close(found[name][-1], alone, atol=1e-5, rtol=0)
