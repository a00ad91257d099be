"""ZeRO-3 trains as data parallel does, and sends and keeps what it promises."""

import io
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import FileSystemReader
from torch.utils.checkpoint import checkpoint

from lessons.props import sharded_parameters as sleeping_layers
from parallel_by_hand.memory import recomputation
from parallel_by_hand.model_parallel.transformer_block import (
    block_cut_by_layer,
    make_transformer_block,
)
from parallel_by_hand.sharding import (
    checkpoint_resharding,
)
from parallel_by_hand.sharding.gathered_ledger import GatheredLedger
from parallel_by_hand.sharding.ledger import (
    SINGLE,
    bytes_behind,
    optimizer_tensors,
    predicted_ledger,
)
from parallel_by_hand.sharding.measured_ledger import (
    MeasuredLedger,
    block_loss,
    measure_block,
    sgd_with_momentum,
)
from parallel_by_hand.sharding.sharded_block import (
    measure_block_in_units,
    state_of_cuts,
)
from parallel_by_hand.sharding.zero_3 import ZeRO3
from parallel_by_hand.sharding.zero_from_scratch import (
    digits_scores,
    make_trained,
    train_in_stage,
)
from parallel_by_hand.tensor_parallel import split_block
from parallel_by_hand.tensor_parallel.block_rows import block_cut_by_neuron
from sidebyside import RankFailed, Timeline, device, run_ranks
from sidebyside.course.record import ROOT
from tests.process_state import TORCHRUN, said_by

# The same training --------------------------------------------------------------------

STAGES = "ZeRO-1", "ZeRO-2", "ZeRO-3", "ZeRO-3, whole till backward"


def test_over_two_ranks_every_stage_is_data_parallel_bit_for_bit():
    ddp = run_ranks(train_in_stage, "DDP", 8)[0]
    assert ddp["losses"][-1] < 0.8 * ddp["losses"][0]  # it has learned something
    for stage in STAGES:
        for one in run_ranks(train_in_stage, stage, 8):
            assert one["losses"] == ddp["losses"]
            for mine, ddps in zip(one["parameters"], ddp["parameters"], strict=True):
                assert torch.equal(mine, ddps)


def test_over_more_ranks_zero_3_is_data_parallel_up_to_rounding():
    ddp = run_ranks(train_in_stage, "DDP", world_size=3)[0]
    zero = run_ranks(train_in_stage, "ZeRO-3", world_size=3)[0]
    for mine, ddps in zip(zero["parameters"], ddp["parameters"], strict=True):
        torch.testing.assert_close(mine, ddps, atol=1e-7, rtol=0)


# Bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [3])
def test_zero_3_sends_one_and_a_half_times_what_data_parallel_sends(ranks):
    padded = numbers_with_padding(ranks)
    for way, trips in (("ZeRO-3", 3), ("ZeRO-3, whole till backward", 2)):
        for one in run_ranks(train_in_stage, way, 1, world_size=ranks):
            assert one["sent"] == trips * (ranks - 1) * 4 * padded // ranks
            assert one["kept"] == one["gradients"] == one["optimiser"]
            assert one["kept"] == 4 * padded // ranks


def numbers_with_padding(ranks: int) -> int:
    """Parameters of the digits network, with each unit's padding."""
    units = [64 * 64 + 64] * 5 + [64 * 10 + 10]
    return sum(-(-unit // ranks) * ranks for unit in units)


# The ledger ---------------------------------------------------------------------------


def test_at_most_one_unit_is_whole_at_a_time_and_two_with_prefetch():
    largest = 4 * (64 * 64 + 64)
    assert run_ranks(train_in_stage, "ZeRO-3")[0]["gathered"] == largest
    assert run_ranks(peak_with_prefetch)[0] == 2 * largest


@pytest.mark.everything
def test_with_two_units_in_a_block_a_rank_holds_more_than_the_block():
    whole = sum(p.nbytes for p in make_transformer_block().parameters())
    for ledger, sent in run_ranks(measure_block_in_units):
        mlp = whole - 4 * (64 * 192 + 192 + 64 * 64 + 64 + 128)
        assert ledger.parameters == whole // 2 + mlp > whole
        assert ledger.buffers == 2 * mlp  # flat, a chunk that arrives, the sum
        assert sent == 3 * whole // 2 and ledger.optimiser == whole // 2


def state_of_own_part(way: str) -> tuple[int, ...]:
    """Runs in each rank: bytes of its part of the block, of gradients and momentum."""
    block = make_transformer_block()
    if way == "by layer":
        mine = block[dist.get_rank()]
    else:
        mine = split_block.split_block(block, split_block.ENDS[way])
    optimizer = sgd_with_momentum(mine.parameters())
    mine(torch.ones(2, 4, 64)).square().mean().backward()
    optimizer.step()
    gradients = [p.grad for p in mine.parameters()]
    state = mine.parameters(), gradients, optimizer_tensors(optimizer)
    return tuple(bytes_behind(tensors) for tensors in state)


def rows_of_all_cuts() -> dict[str, list[MeasuredLedger]]:
    rows = {"by layer": state_of_cuts(run_ranks(block_cut_by_layer))}
    for way in ("tensor", "sequence"):
        rows[way] = state_of_cuts(run_ranks(block_cut_by_neuron, way))
    for stage in ("DDP", "ZeRO-1", "ZeRO-2"):
        rows[stage] = run_ranks(measure_block, stage)
    return rows | {"ZeRO-3": run_ranks(measure_block_in_units)}


@pytest.mark.everything
def test_the_block_in_all_cuts_is_as_predicted_and_shares_add_up():
    halves = make_transformer_block()
    units = [sum(p.numel() for p in half.parameters()) for half in halves]
    whole, twice = 4 * sum(units), 4 * 6 * 64  # norms, and biases of `out` and `narrow`
    momentum = SINGLE._replace(optimiser=4)
    for way, of_ranks in rows_of_all_cuts().items():
        ledgers = [ledger for ledger, _ in of_ranks]
        assert ledgers[0] == ledgers[1] or way == "by layer", "one line is enough"
        optimisers = sum(ledger.optimiser for ledger in ledgers)
        if way in ("by layer", "tensor", "sequence"):
            assert [ledger[:3] for ledger in ledgers] == run_ranks(
                state_of_own_part, way
            )
            assert optimisers == whole + (0 if way == "by layer" else twice)
        else:
            predicted = predicted_ledger(units, 2, way, momentum, counter=0)
            assert ledgers[0][:4] == predicted[:4]
            assert optimisers == whole * (2 if way == "DDP" else 1)


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
    for blocks in (1, 36):
        high = predicted_ledger(blocks * units, 2, "ZeRO-3")
        assert high.parameters == blocks * shard + mlp
        assert high.gradients == blocks * shard + mlp
        whole = predicted_ledger(blocks * units, 2, "DDP")
        assert (high.parameters < whole.parameters) == (blocks == 36)
    momentum = SINGLE._replace(optimiser=4)
    ddp, zero = (
        sum(predicted_ledger(4 * units, 4, stage, momentum, counter=0)[:4])
        for stage in ("DDP", "ZeRO-3")
    )
    assert zero < ddp / 2, "four blocks on four ranks"


def peak_with_prefetch() -> int:
    network, zero = make_trained("ZeRO-3", torch.optim.SGD, prefetch=True)
    with GatheredLedger(zero.units) as ledger:
        digits_scores(network, 0, 0)[0].sum().backward()
        zero.step()
    assert ledger.now == 0
    return ledger.peak


# Prefetch -----------------------------------------------------------------------------


def predicted_step_of_sleepers(
    prefetch: bool, depth: int, seconds: float, travel: float
) -> float:
    """Added up, for a wire that carries a layer while another one computes.

    One after another: a layer waits to be gathered, and in backward the gradients of
    the layer before it travel first. With prefetch only the ends are waited for: the
    first gather forward, the first backward, and the last gradients.
    """
    return 3 * travel * (1 if prefetch else depth) + 3 * depth * seconds


def test_prefetch_leaves_three_trips_with_nothing_to_hide_behind():
    for prefetch, seconds in (False, 0.84), (True, 0.57):
        plan = predicted_step_of_sleepers(prefetch, 4, 0.04, 0.03)
        assert plan == pytest.approx(seconds)


@pytest.mark.everything
def test_a_step_over_a_slow_wire_never_takes_less_than_its_plan():
    for prefetch in (False, True):
        settings = 3, 0.02, 0.015
        plan = predicted_step_of_sleepers(prefetch, *settings)
        for taken in run_ranks(
            sleeping_layers.step_over_slow_wire, prefetch, *settings
        ):
            assert taken > 0.95 * plan


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


@pytest.mark.parametrize("depth", [1, 4, 16, 64])
def test_segments_of_the_root_keep_least_and_cost_one_more_forward(depth):
    lengths = [2**power for power in range(7) if 2**power <= depth]
    plain = recomputation.measure_recomputation(depth, None)
    runs = {k: recomputation.measure_recomputation(depth, k) for k in lengths}
    assert plain["kept"] == depth + 1 and plain["forwards"] == depth
    for length, run in runs.items():
        assert run["kept"] == depth / length + length
        assert run["forwards"] == 2 * depth
        for mine, plains in zip(run["gradients"], plain["gradients"], strict=True):
            assert torch.equal(mine, plains)
    assert min(runs, key=lambda k: runs[k]["kept"]) == depth**0.5


def test_torchs_checkpoint_has_the_same_gradients_and_forwards():
    ours = recomputation.measure_recomputation(8, 2)
    again = partial(checkpoint, use_reentrant=False)
    theirs = recomputation.measure_recomputation(8, 2, again=again)
    assert ours["forwards"] == theirs["forwards"]
    for mine, librarys in zip(ours["gradients"], theirs["gradients"], strict=True):
        torch.testing.assert_close(mine, librarys)


def test_only_without_reentry_do_inputs_without_gradients_train_the_segment():
    segment, x = nn.Linear(3, 3), torch.ones(2, 3)
    with pytest.warns(UserWarning, match="Gradients will be None"):
        assert not checkpoint(segment, x, use_reentrant=True).requires_grad
    checkpoint(segment, x, use_reentrant=False).sum().backward()
    assert segment.weight.grad is not None


# Checkpoints --------------------------------------------------------------------------


@pytest.mark.everything
@pytest.mark.parametrize("readers", [1, 2, 3])
def test_other_ranks_go_on_as_if_nobody_had_interrupted(readers, tmp_path):
    train, folder = checkpoint_resharding.train_sharded, str(tmp_path / "saved")
    whole = run_ranks(train, folder, 0, 4, 2, world_size=4)[0]
    after = run_ranks(train, folder, 2, 4, world_size=readers)[0]
    assert after == pytest.approx(whole[2:], abs=1e-6)


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
