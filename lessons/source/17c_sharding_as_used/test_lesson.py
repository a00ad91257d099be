"""Each choice around FSDP2 changes the bytes that the lesson says, and no others."""

import os
import pickle
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from lessons.props import sharding_as_used
from parallel_by_hand.sharding import background_checkpoint, reshard_switches
from parallel_by_hand.sharding.sharding_meter import ShardingMeter
from parallel_by_hand.sharding.stack_to_shard import (
    BF16,
    bytes_to_build,
    make_stack,
    shard_in_order,
    stack_loss,
)
from sidebyside import device, run_ranks
from sidebyside.course.record import ROOT
from tests.process_state import TORCHRUN, said_by

from .checks import bytes_of_unit

NUMBERS = sum(p.numel() for p in make_stack().parameters())

# The order ----------------------------------------------------------------------------


def split_after_sharding() -> None:
    mesh = background_checkpoint.make_two_dimensions(tensor=1)
    block = fully_shard(make_stack(1)[0], mesh=mesh["data"])
    plan = {"wide": ColwiseParallel(), "narrow": RowwiseParallel()}
    with pytest.raises(ValueError, match="different device mesh"):
        parallelize_module(block, mesh["tensor"], plan)


def test_a_sharded_block_cannot_be_split():
    run_ranks(split_after_sharding)


def test_only_on_the_meta_device_does_no_rank_hold_the_whole_model():
    for ranks in (2, 4):
        for peak, same in run_ranks(bytes_to_build, False, world_size=ranks):
            assert peak > 4 * NUMBERS and same
    for peak, same in run_ranks(bytes_to_build, True, world_size=4):
        assert peak < 0.7 * 4 * NUMBERS and same


# Sixteen bits -------------------------------------------------------------------------


@pytest.mark.everything
def test_over_two_meshes_ranks_disagree_about_an_overflow():
    found = run_ranks(sharding_as_used.step_with_overflow, 1, 2, world_size=4)
    assert found == [(1024.0, True), (512.0, False)] * 2


def bytes_of_real_unit(shapes) -> tuple[int, int]:
    """Runs in each rank: (kept, gathered) of a unit after a step of Adam."""
    unit = nn.Module()
    unit.parts = nn.ParameterList(torch.ones(shape) for shape in shapes)
    unit.forward = lambda: sum(part.float().sum() for part in unit.parts)
    adam_of = torch.optim.Adam
    fully_shard(unit, mp_policy=BF16)
    adam = adam_of(unit.parameters(), foreach=False)
    with ShardingMeter(unit) as meter:
        unit().backward()
    adam.step()
    kept = sharding_as_used.state_of_rank(unit, adam)
    return sum(kept) - 4 * len(shapes), meter.whole  # Adam's counters


@pytest.mark.everything
@pytest.mark.parametrize("ranks", [2, 3])
def test_the_formula_of_exercise_1_is_what_fsdp2_keeps_and_gathers(ranks):
    for shapes in ([(5, 3), (5,)], [(9, 2, 3), (1,)]):
        found = run_ranks(bytes_of_real_unit, shapes, world_size=ranks)
        for rank, one in enumerate(found):
            assert one == bytes_of_unit(shapes, ranks, rank)


# Switches -----------------------------------------------------------------------------


def at_all_settings(parts: int) -> list:
    count = reshard_switches.count_gathers
    kept = (False, False), (False, True), (True, False), (True, True)
    return [count(*after, parts=parts) for after in kept]


@pytest.mark.parametrize("parts", [4, pytest.param(3, marks=pytest.mark.everything)])
def test_switches_decide_how_often_a_block_is_gathered(parts):
    found = run_ranks(at_all_settings, parts)[0]
    of_blocks = [{one.gathers[block] for block in "012"} for one in found]
    assert of_blocks == [{2 * parts}, {parts + 1}, {parts}, {1}]
    assert [one.gathers["root"] for one in found] == [parts, 1, parts, 1]
    wholes = [max(held for _, held in one.entries) for one in found]
    assert wholes[0] < 4 * NUMBERS // 2 and set(wholes[1:]) == {4 * NUMBERS}
    assert {one.scatters for one in found} == {4}, "one for each unit"


# Recompute ----------------------------------------------------------------------------


def gathers_of(again: str) -> tuple:
    model = shard_in_order(make_stack(), again=again)
    with ShardingMeter(model) as meter:
        stack_loss(model, 0, dist.get_rank(), dist.get_world_size()).backward()
    return sorted(meter.gathers.values()), meter.sent()


@pytest.mark.everything
def test_recomputation_gathers_no_block_once_more():
    ways = "nothing", "all", "all but products"
    plain, *others = run_ranks(lambda: [gathers_of(again) for again in ways])[0]
    assert plain[0] == [1, 2, 2, 2] and others == [plain, plain]


# Two machines -------------------------------------------------------------------------


def test_hybrid_sharding_sends_less_between_machines_and_keeps_twice_as_much():
    found, ways = {}, ("sharded", "hybrid", "data × tensor")
    for way in ways:
        found[way] = run_ranks(sharding_as_used.measure_traffic, way, world_size=4)
    between = {way: sum(one.between for one in found[way]) for way in ways}
    total = {way: sum(one.sent.total() for one in found[way]) for way in ways}
    assert between["hybrid"] == 4 * 4 * NUMBERS // 2, "all-reduce of half, among two"
    assert between["sharded"] == total["sharded"] // 2, "two of four ranks cross"
    assert between["hybrid"] < between["data × tensor"] < between["sharded"]
    assert total["hybrid"] - between["hybrid"] > total["sharded"] / 2
    assert total["data × tensor"] < min(total["hybrid"], total["sharded"])
    kept = {way: sum(one.kept for one in found[way]) for way in ways}
    assert kept["hybrid"] == 2 * kept["sharded"] == 2 * 4 * NUMBERS
    losses = [one.loss for way in ways for one in found[way]]
    assert losses == pytest.approx([losses[0]] * 12)


def test_the_norm_over_two_meshes_is_that_of_one_process():
    model = make_stack().to(device())
    stack_loss(model, 0, 0, 1).backward()
    whole = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    for said, meshes, norm in run_ranks(sharding_as_used.clipped_norm, world_size=4):
        assert "must have the same mesh" in said
        assert meshes == [12, 8] and norm == pytest.approx(whole)


# A script of your own -----------------------------------------------------------------

SCRIPT = ROOT / "demos/sharding/own_2d_training.py"


@pytest.mark.everything
def test_two_ranks_go_on_where_four_have_stopped_and_one_as_well(tmp_path):
    (tmp_path / "logs").mkdir()  # torchrun leaves a folder there
    one, several = tmp_path / "one", tmp_path / "several"
    logs = {"TMPDIR": str(tmp_path / "logs")}

    def by_torchrun(ranks: int, *asked) -> str:
        torchrun = *TORCHRUN, "--nproc-per-node", ranks
        return said_by(
            *torchrun, SCRIPT, "--float32", "--checkpoint", several, *asked, **logs
        )

    first = said_by(SCRIPT, "--float32", "--checkpoint", one)
    four = by_torchrun(4, "--tensor", "2")
    (several / "99999999").mkdir()  # without .metadata: never finished, skipped
    second = said_by(SCRIPT, "--float32", "--checkpoint", one)
    two = by_torchrun(2, "--profile", tmp_path / "traces")
    losses = [float(said.split()[-1]) for said in (first, four, second, two)]
    assert losses[0] == pytest.approx(losses[1], abs=2e-4)
    assert losses[2] == pytest.approx(losses[3], abs=2e-4) and losses[2] < losses[0]
    for rank in range(2):
        trace = (tmp_path / "traces" / f"rank{rank}.json").read_text()
        assert "FSDP::all_gather" in trace
    os.truncate(one / "00000040" / "__0_0.distcp", 1000)
    assert "is not of this program" in refused_by("--checkpoint", str(one))


def refused_by(*asked: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *asked], capture_output=True, text=True
    )
    assert done.returncode == 2
    return done.stderr


class Planted:
    """Unpickled, it makes a folder: any other command would run as well."""

    def __init__(self, place: str):
        self.place = place

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.place,)


@pytest.mark.everything
def test_it_refuses_a_foreign_checkpoint_and_ranks_that_do_not_divide(tmp_path):
    folder, made = tmp_path / "00000020", tmp_path / "made"
    folder.mkdir()
    (folder / ".metadata").write_bytes(pickle.dumps(Planted(str(made))))
    said = refused_by("--checkpoint", str(tmp_path))
    assert "00000020 is not of this program" in said and not made.exists()
    assert "1 ranks are no multiple of 2" in refused_by("--tensor", "2")


@pytest.mark.everything
def test_without_a_compiler_the_script_says_so_and_trains(tmp_path):
    plain = said_by(SCRIPT)
    said = said_by(SCRIPT, "--compile", PATH=str(tmp_path))
    assert said == "no C++ compiler here: nothing is compiled\n" + plain
