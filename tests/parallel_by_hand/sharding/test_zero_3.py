"""ZeRO-3 in units: its rings, its clipping, its master copies, its ledger."""

import pytest
import torch
from torch import nn

from parallel_by_hand.model_parallel.transformer_block import (
    make_transformer_block,
)
from parallel_by_hand.sharding.ledger import (
    SINGLE,
    predicted_ledger,
)
from parallel_by_hand.sharding.shard_links import RingLink
from parallel_by_hand.sharding.sharded_block import (
    measure_block_in_units,
)
from parallel_by_hand.sharding.zero_3 import ZeRO3
from parallel_by_hand.sharding.zero_from_scratch import (
    digits_scores,
    make_trained,
    train_in_stage,
    whole_parameters,
)
from sidebyside import run_ranks


def clipped_parameters(way: str) -> torch.Tensor:
    network, trained = make_trained(way, lambda p: torch.optim.SGD(p, lr=0.1))
    for step in range(3):
        scores, labels = digits_scores(network, step, 0)
        nn.functional.cross_entropy(scores, labels).backward()
        trained.step(longest=0.05)
    return whole_parameters(trained)


@pytest.mark.everything
def test_clipping_looks_at_the_length_of_the_whole_gradient():
    ddp, zero = (run_ranks(clipped_parameters, way)[0] for way in ("DDP", "ZeRO-3"))
    torch.testing.assert_close(zero, ddp, atol=1e-7, rtol=0)


def sixteen_bits() -> tuple[list[torch.dtype], bool]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)).bfloat16()
    zero = ZeRO3(model, lambda p: torch.optim.SGD(p, lr=1e-4), RingLink())
    for _ in range(3):
        model(torch.ones(2, 4, dtype=torch.bfloat16)).sum().backward()
        zero.step()
    rounded = (m.bfloat16() for m in zero.masters)
    equal = map(torch.equal, rounded, (unit.kept for unit in zero.units))
    return [m.dtype for m in zero.masters], all(equal)


@pytest.mark.everything
def test_sixteen_bits_are_updated_by_a_float32_master_copy():
    for kinds, rounded in run_ranks(sixteen_bits):
        assert set(kinds) == {torch.float32} and rounded


@pytest.mark.everything
def test_accumulated_gradients_train_alike_held_back_or_not():
    every, last = (
        run_ranks(train_in_stage, "ZeRO-3", 3, 4, hold)[0]["parameters"]
        for hold in (False, True)
    )
    for one, other in zip(every, last, strict=True):
        torch.testing.assert_close(one, other, atol=1e-7, rtol=0)


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [1, 3])
def test_the_ledger_of_zero_3_is_as_predicted(ranks):
    units = [sum(p.numel() for p in u.parameters()) for u in make_transformer_block()]
    momentum = SINGLE._replace(optimiser=4)
    predicted = predicted_ledger(units, ranks, "ZeRO-3", momentum, counter=0)
    for ledger, _ in run_ranks(measure_block_in_units, world_size=ranks):
        assert ledger[:4] == predicted[:4]
