"""ZeRO-3 trains as data parallel does, and sends and keeps what it promises."""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint import FileSystemReader
from torch.utils.checkpoint import checkpoint

from lessons.props import sharded_parameters as sleeping_layers
from parallel_by_hand.model_parallel.transformer_block import (
    make_transformer_block,
)
from parallel_by_hand.sharding import (
    checkpoint_resharding,
)
from parallel_by_hand.sharding.gathered_ledger import GatheredLedger
from parallel_by_hand.sharding.ledger import (
    bytes_behind,
)
from parallel_by_hand.sharding.measured_ledger import (
    block_loss,
    sgd_with_momentum,
)
from parallel_by_hand.sharding.zero_3 import ZeRO3
from parallel_by_hand.sharding.zero_from_scratch import (
    digits_scores,
    make_trained,
    train_in_stage,
)
from sidebyside import RankFailed, Timeline, device, run_ranks
from sidebyside.course.record import ROOT
from tests.process_state import TORCHRUN, said_by

# The same training --------------------------------------------------------------------


def test_over_more_ranks_zero_3_is_data_parallel_up_to_rounding():
    ddp = run_ranks(train_in_stage, "DDP", world_size=3)[0]
    zero = run_ranks(train_in_stage, "ZeRO-3", world_size=3)[0]
    for mine, ddps in zip(zero["parameters"], ddp["parameters"], strict=True):
        torch.testing.assert_close(mine, ddps, atol=1e-7, rtol=0)


# The ledger ---------------------------------------------------------------------------


def test_with_prefetch_at_most_two_units_are_whole_at_a_time():
    largest = 4 * (64 * 64 + 64)
    assert run_ranks(peak_with_prefetch)[0] == 2 * largest


def peak_of_stack(blocks: int) -> tuple[int, int]:
    """Runs in each rank: bytes kept of a stack, and gathered at the most."""
    halves = [half for _ in range(blocks) for half in make_transformer_block()]
    stack = nn.Sequential(*halves).to(device())
    zero = ZeRO3(stack, sgd_with_momentum)
    with GatheredLedger(zero.units) as gathered:
        block_loss(stack, 0).backward()
        zero.step()
    return bytes_behind([unit.kept for unit in zero.units]), gathered.peak


@pytest.mark.everything
def test_a_higher_stack_keeps_more_and_borrows_no_more_at_a_time():
    units = [sum(p.numel() for p in u.parameters()) for u in make_transformer_block()]
    mlp, shard = 4 * max(units), 4 * sum(units) // 2
    for blocks in (1, 4):
        assert run_ranks(peak_of_stack, blocks) == [(blocks * shard, mlp)] * 2


def peak_with_prefetch() -> int:
    network, zero = make_trained("ZeRO-3", torch.optim.SGD, prefetch=True)
    with GatheredLedger(zero.units) as ledger:
        digits_scores(network, 0, 0)[0].sum().backward()
        zero.step()
    assert ledger.now == 0
    return ledger.peak


# Prefetch -----------------------------------------------------------------------------


def gathers_beside(work: str, prefetch: bool) -> int:
    """How many of rank 0's units are gathered while one of its layers does `work`."""
    with Timeline() as timeline:
        run_ranks(sleeping_layers.step_over_slow_wire, prefetch, 3, 0.06, 0.02)
    works = [s for s in timeline.spans if (s.name, s.lane) == (work, "rank 0")]
    wire = [s for s in timeline.spans if s.lane == "rank 0 wire"]
    gathers = [s for s in wire if s.name == "gather"]
    assert len(works) == 3 and len(gathers) == 6
    return sum(any(g.start < w.end and w.start < g.end for w in works) for g in gathers)


@pytest.mark.everything
@pytest.mark.parametrize("work", ["forward", "backward"])
def test_only_with_prefetch_is_a_unit_gathered_while_another_one_computes(work):
    assert gathers_beside(work, prefetch=False) == 0
    tries = (gathers_beside(work, prefetch=True) for _ in range(5))
    assert 2 in tries, "all but the first; a busy machine may begin one too late"


# FSDP2 --------------------------------------------------------------------------------


POSE = """
from parallel_by_hand.sharding.rank_0_of_1024 import (kept_by_rank_0)
print(*kept_by_rank_0(1024, layers=2), *kept_by_rank_0(1024, vocabulary=50_257))
"""


@pytest.mark.everything
def test_rank_0_of_1024_keeps_its_share_up_to_a_row_of_each_parameter():
    command = [sys.executable, "-c", POSE]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    even, kept, uneven, more = map(int, done.stdout.split())
    assert kept * 1024 == even
    assert 1 < more * 1024 / uneven < 1.001
    assert more * 1024 - uneven == (50 * 1024 - 50_257) * 4096, "50 rows for rank 0"


# Activation checkpointing -------------------------------------------------------------


def test_only_without_reentry_do_inputs_without_gradients_train_the_segment():
    segment, x = nn.Linear(3, 3), torch.ones(2, 3)
    with pytest.warns(UserWarning, match="Gradients will be None"):
        assert not checkpoint(segment, x, use_reentrant=True).requires_grad
    checkpoint(segment, x, use_reentrant=False).sum().backward()
    assert segment.weight.grad is not None


# Checkpoints --------------------------------------------------------------------------


class Planted:
    """Unpickled, it makes a folder: any other command would run as well."""

    def __init__(self, place: Path):
        self.place = place

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.place),)


def plant_in_metadata(folder: Path, planted: Planted) -> None:
    (folder / ".metadata").write_bytes(pickle.dumps(planted))


def plant_in_learning_rate(folder: Path, planted: Planted) -> None:
    """The file of a rank holds a pickle for each number that is no tensor."""
    metadata = FileSystemReader(folder).read_metadata()
    name = "optimizer.param_groups.0.lr"
    [place] = [info for key, info in metadata.storage_data.items() if key.fqn == name]
    saved = io.BytesIO()
    torch.save(planted, saved)
    path = folder / place.relative_path
    place.offset, place.length = path.stat().st_size, len(saved.getvalue())
    path.write_bytes(path.read_bytes() + saved.getvalue())
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


@pytest.mark.parametrize(
    "plant",
    [
        plant_in_metadata,
        pytest.param(plant_in_learning_rate, marks=pytest.mark.everything),
    ],
)
def test_a_command_that_is_planted_in_a_checkpoint_does_not_run(plant, tmp_path):
    folder, made = tmp_path / "saved", tmp_path / "made"
    train = checkpoint_resharding.train_sharded
    run_ranks(train, str(folder), 0, 2, 1)
    plant(folder, Planted(made))
    with pytest.raises(RankFailed):
        run_ranks(train, str(folder), 1, 2, world_size=1)
    own = tmp_path / "own"
    said_by(SCRIPT, "--checkpoint", own)
    plant(own / "00000020", Planted(made))
    command = [sys.executable, str(SCRIPT), "--checkpoint", str(own)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode
    if plant is plant_in_metadata:
        assert "00000020 is not of this program" in done.stderr.splitlines()[-1]
    assert not made.exists()
    if plant is plant_in_metadata:
        with pytest.raises(AttributeError):  # what a command returns is no metadata
            FileSystemReader(folder).read_metadata()
        assert made.exists(), "torch's own reader runs it"


# A script of your own -----------------------------------------------------------------

SCRIPT = ROOT / "demos/sharding/own_fully_sharded.py"


@pytest.mark.everything
def test_torchrun_goes_on_with_two_ranks_where_one_has_stopped(tmp_path):
    (tmp_path / "logs").mkdir()  # torchrun leaves a folder there
    one, two = tmp_path / "one", tmp_path / "two"
    first = said_by(SCRIPT, "--checkpoint", one)
    said_by(SCRIPT, "--checkpoint", two)
    alone = said_by(SCRIPT, "--checkpoint", one)
    unfinished = two / "99999999"
    unfinished.mkdir()  # without .metadata: skipped
    torchrun = *TORCHRUN, "--nproc-per-node", "2"
    logs = {"TMPDIR": str(tmp_path / "logs")}
    together = said_by(*torchrun, SCRIPT, "--checkpoint", two, **logs)
    losses = [float(said.split()[-1]) for said in (first, alone, together)]
    assert losses[1] == pytest.approx(losses[2], abs=2e-4) and losses[1] < losses[0]
    os.truncate(one / "00000040" / "__0_0.distcp", 1000)
    command = [sys.executable, str(SCRIPT), "--checkpoint", str(one)]
    torn = subprocess.run(command, capture_output=True, text=True)
    assert torn.returncode == 2 and "is not of this program" in torn.stderr
