"""The ledger counts each tensor, and its formula is right for other sizes."""

import gc

import pytest
from torch import nn

from parallel_by_hand.memory.device_memory import DeviceMemory
from parallel_by_hand.model_parallel.transformer_block import make_transformer_block
from parallel_by_hand.sharding.ledger import (
    bytes_behind,
    count_ledger,
)
from parallel_by_hand.sharding.measured_ledger import (
    BUILT,
    adam,
    digits_loss_for_ledger,
    make_digits_network,
)
from parallel_by_hand.sharding.memory_ledger import Transformer
from sidebyside import run_ranks


def all_tensors_beside_the_ledger(strategy: str) -> tuple[int, int]:
    """Runs in each rank: bytes of all living tensors, and what the ledger knows of."""
    with DeviceMemory() as memory:
        network = make_digits_network()
        trained = BUILT[strategy](network, adam)
        digits_loss_for_ledger(network, 0).backward()
        trained.step()
        gc.collect()
        ledger = count_ledger(trained, network, bytes_behind(trained.gradients), 0)
    counters = [state["step"].nbytes for state in trained.optimizer.state.values()]
    return memory.now + sum(counters), sum(ledger)  # torch.tensor(0.0) passes unseen


@pytest.mark.everything
@pytest.mark.parametrize("strategy", BUILT)
def test_the_ledger_forgets_no_tensor(strategy):
    for held, counted in run_ranks(all_tensors_beside_the_ledger, strategy):
        assert held == counted


def test_a_transformers_parameters_are_counted_as_torch_counts_them():
    model = Transformer(width=64, layers=3, heads=4, vocabulary=100, length=16)
    blocks = [make_transformer_block(64) for _ in range(3)]
    parts = nn.ModuleList(
        [*blocks, nn.Embedding(100, 64), nn.Embedding(16, 64), nn.LayerNorm(64)]
    )
    assert model.numbers == sum(p.numel() for p in parts.parameters())
    each = 34 + 5 * 4 * 16 / 64  # Korthikanti et al.: bytes, over s b h
    assert model.activations(2) == 3 * 16 * 2 * 64 * each
