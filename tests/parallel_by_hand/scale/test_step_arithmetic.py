"""Operations and parameters are those that torch and Megatron-LM count."""

import pytest
from torch import nn

from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.scale.step_arithmetic import step_flops
from parallel_by_hand.scale.training_plan import Model
from parallel_by_hand.sharding.memory_ledger import Transformer
from tests.parallel_by_hand.scale.small_steps import FREE, SMALL, simulate


@pytest.mark.parametrize("batch", [1, 512])
def test_full_recomputation_is_megatrons_formula(batch):
    l, h, s, v = 24, 2304, 2048, 51_200  # noqa: E741
    megatron = 96 * batch * s * l * h**2 * (1 + s / (6 * h) + v / (16 * l * h))
    found = step_flops(Model(l, h, 24, s, v), batch, "full")
    assert found == pytest.approx(megatron, rel=1e-12)


def test_parameters_are_megatrons_formula_and_17s():
    l, h, s, v = 80, 12_288, 2048, 51_200  # noqa: E741
    model = Model(l, h, 96, s, v)
    megatron = 12 * l * h**2 * (1 + 13 / (12 * h) + (v + s) / (12 * l * h))
    assert model.numbers == pytest.approx(megatron, rel=1e-6)
    assert model.numbers == Transformer(h, l, 96, v, s).numbers
    layers = nn.Sequential(*(make_transformer_block(32, 4) for _ in range(3)))
    counted = sum(p.numel() for p in layers.parameters())
    assert Model(3, 32, 4, 8, 0).numbers == counted


def test_without_messages_and_bytes_a_step_takes_its_operations():
    for recomputation in ("none", "selective", "full"):
        step = simulate(cluster=FREE, data=8, recomputation=recomputation)
        assert step.hardware_utilisation == pytest.approx(FREE.efficiency, rel=1e-6)
        needed = step_flops(SMALL, 16) / step_flops(SMALL, 16, recomputation)
        share = step.model_utilisation / step.hardware_utilisation
        assert share == pytest.approx(needed)
        assert step.idle == pytest.approx(0, abs=1e-6)
