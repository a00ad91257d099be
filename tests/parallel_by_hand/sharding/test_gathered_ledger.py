"""The ledger of gathered bytes catches what reads freed memory."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from parallel_by_hand.sharding.gathered_ledger import FreedTooEarly, GatheredLedger
from parallel_by_hand.sharding.zero_3 import ShardedUnit
from sidebyside import run_ranks


def freed_between_forward_and_backward() -> str:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    units = [ShardedUnit(layer) for layer in model]
    with GatheredLedger(units) as ledger:
        for unit in units:
            unit.allocate()
            unit.flat.zero_()
        loss = model(torch.ones(2, 3)).sum()
        for unit in units:
            unit.release()
        assert ledger.peak == sum(unit.flat.nbytes for unit in units)
        with pytest.raises(FreedTooEarly) as caught:
            loss.backward()
    return str(caught.value)


def test_the_ledger_catches_what_is_freed_before_backward():
    for message in run_ranks(freed_between_forward_and_backward):
        assert "reads parameters that have been freed" in message


READS_FREED = """
import torch
matrix = torch.ones(4, 4)
matrix.untyped_storage().resize_(0)
matrix.sum()
"""


@pytest.mark.everything
@pytest.mark.skipif(
    sys.platform != "linux", reason="how a process ends is the system's"
)
def test_without_the_ledger_reading_freed_memory_ends_the_process():
    done = subprocess.run([sys.executable, "-c", READS_FREED], capture_output=True)
    assert done.returncode != 0
