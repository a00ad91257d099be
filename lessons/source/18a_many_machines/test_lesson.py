"""What crosses the link is counted; both ways to have two machines give the same."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from demos.machines.own_compressed_ddp import train_compressed
from parallel_by_hand.machines import compressed_gradients as compressed
from parallel_by_hand.machines.compressed_gradients import (
    WAYS_TO_SEND,
    top_k_mean,
    train_over_link,
    wide_digits_network,
)
from parallel_by_hand.machines.hierarchical_all_reduce import (
    ALL_REDUCES_OF_MACHINES,
    bytes_across,
    time_across,
)
from parallel_by_hand.machines.hosts import FORBIDDEN, why_no_hosts
from parallel_by_hand.machines.link_inside import LinkInside, link_inside, one_at_a_time
from parallel_by_hand.machines.ring_among import ring_among
from parallel_by_hand.machines.torchrun_on_hosts import TorchrunFailed
from parallel_by_hand.machines.two_machines import RankOnHostFailed, TwoMachines
from sidebyside import MessageMeter, RankFailed, load_digits, run_ranks
from sidebyside.course.record import ROOT
from tests.process_state import said_by

ROLL_CALL = ROOT / "demos/machines/roll_call.py"
BRANCHES = ["hosts", "simulated"]


@pytest.fixture(scope="module", params=BRANCHES)
def machines(request):
    """Two machines, real and simulated, over a quick link; their ranks start slowly."""
    with pytest.MonkeyPatch.context() as patch:
        why_no_hosts.cache_clear()
        if request.param == "simulated":
            patch.setenv(FORBIDDEN, "1")
        elif problem := why_no_hosts():
            pytest.skip(problem)
        two = TwoMachines(rate=1000)
    why_no_hosts.cache_clear()
    with two:
        yield two


# All-reduce across machines -----------------------------------------------------------


def sums_and_meters(per_machine: int, sizes: list[int]) -> list[tuple]:
    """Runs in each rank: for each way and size whether the sum is the library's, its
    first number, and bytes sent inside this machine and across."""
    rank, found = dist.get_rank(), []
    for name, all_reduce in ALL_REDUCES_OF_MACHINES.items():
        for size in sizes:
            tensor = torch.arange(float(size)) + 10.0**rank
            library = tensor.clone()
            dist.all_reduce(library)
            with MessageMeter() as meter:
                all_reduce(tensor, per_machine)
            mine = [to // per_machine == rank // per_machine for to in meter.sent_to]
            parts = [0, 0]
            for inside, sent in zip(mine, meter.sent_to.values(), strict=True):
                parts[inside] += sent
            found.append((name, size, torch.equal(tensor, library), *parts))
    return found


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (2, 2), (3, 2), (2, 3), (1, 3)])
def test_every_way_gives_the_librarys_sum_and_sends_what_the_text_says(cluster):
    machines, per_machine = cluster
    ranks = machines * per_machine
    sizes = [36, 5, 1, 0]
    found = run_ranks(sums_and_meters, per_machine, sizes, world_size=ranks)
    for of_ranks in zip(*found, strict=True):
        name, size, *_ = of_ranks[0]
        assert all(equal for _, _, equal, *_ in of_ranks), (name, size)
        across = sum(sent for *_, sent, _ in of_ranks[:per_machine])
        if size % ranks or machines == 1:
            continue
        expected = {
            "flat ring": 2 * (ranks - 1) / ranks,
            "dealt ring": per_machine * 2 * (ranks - 1) / ranks,
            "hierarchical": 2 * (machines - 1) / machines,  # whatever per_machine is
        }
        assert across == expected[name] * 4 * size, (name, size)


RINGS = [[2], [3, 0], [3, 1, 0], [0, 2, 1, 3]]


def rings_of_some() -> list[torch.Tensor]:
    """Runs in each rank: all rings in one launch, for launching is slow."""
    tensors = []
    for members in RINGS:
        tensors.append(torch.full((7,), 10.0 ** dist.get_rank()))
        if dist.get_rank() in members:
            ring_among(tensors[-1], members)
    return tensors


def test_a_ring_sums_over_its_members_only_in_any_order():
    for rank, tensors in enumerate(run_ranks(rings_of_some, world_size=4)):
        for members, tensor in zip(RINGS, tensors, strict=True):
            total = sum(10**m for m in members) if rank in members else 10**rank
            assert tensor.tolist() == [total] * 7, members


# The simulated link -------------------------------------------------------------------


def carried_beside_meter(folder: str) -> list[tuple]:
    """Runs in each rank: what its cable carried, and what it sent across."""
    rank, found = dist.get_rank(), []
    with pytest.MonkeyPatch.context() as patch, link_inside(1e6, 2, folder):
        carried = []
        patch.setattr(LinkInside, "carry", lambda self, size: carried.append(size))
        for all_reduce in ALL_REDUCES_OF_MACHINES.values():
            carried.clear()
            with MessageMeter() as meter:
                all_reduce(torch.ones(24), 2)
            across = sum(s for to, s in meter.sent_to.items() if to // 2 != rank // 2)
            found.append((sum(carried), across))
        carried.clear()
        dist.all_reduce(torch.ones(24))
        dist.all_gather([torch.ones(24) for _ in range(4)], torch.ones(24))
        found.append((sum(carried), 2 * 3 / 4 * 96 + 3 * 96))
    return found


def test_the_simulated_link_slows_what_crosses_and_nothing_else(tmp_path):
    for of_rank in run_ranks(carried_beside_meter, str(tmp_path), world_size=4):
        for carried, across in of_rank:
            assert carried == across


@pytest.mark.skipif(os.name != "posix", reason="there is no such lock")
def test_ranks_of_one_machine_share_its_cable(tmp_path):
    import fcntl

    path = tmp_path / "cable"
    with one_at_a_time(str(path)), open(path) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(path) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free again


# Two machines, real and simulated -----------------------------------------------------


def who_and_where() -> tuple:
    names = ["RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"]
    return tuple(int(os.environ[name]) for name in names)


def test_both_branches_tell_ranks_where_they_are(machines):
    found = machines.run_ranks(who_and_where, per_machine=2)
    assert found == [(0, 0, 0, 4, 2), (1, 1, 0, 4, 2), (2, 0, 1, 4, 2), (3, 1, 1, 4, 2)]
    words = f"{machines!r} {machines.stamp}"
    assert ("simulated" in words) == bool(machines.why_simulated)


def test_both_branches_take_at_least_what_bytes_and_rate_say_and_count_alike(machines):
    for way, share in (("flat ring", 1.5), ("hierarchical", 1.0)):
        found = machines.run_ranks(time_across, way, 500_000, 2, 1)
        crossed = bytes_across(found, 2)
        assert crossed == share * 2_000_000
        seconds = max(one.seconds for one in found)  # of the rank that began first
        assert seconds > 0.95 * crossed * 8e-6 / machines.rate
        assert [one.total.item() for one in found] == [1111] * 4
        if not machines.why_simulated:
            assert 1 < found[0].counted * 1e6 / crossed < 1.2  # headers


ADDS_UP_AND_CALLS = f"""
import runpy, torch, torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
assert ones.item() == 2
dist.destroy_process_group()
runpy.run_path({str(ROLL_CALL)!r}, run_name="__main__")
"""


@pytest.mark.everything
def test_both_branches_start_torchrun_and_say_what_went_wrong(machines, tmp_path):
    (tmp_path / "adds_up.py").write_text(ADDS_UP_AND_CALLS)
    said = machines.torchrun(tmp_path / "adds_up.py", per_machine=1)
    assert [f"RANK {node}, LOCAL_RANK 0, GROUP_RANK {node}, WORLD_SIZE 2" in text
            for node, text in enumerate(said)] == [True, True]  # fmt: skip
    (tmp_path / "fails.py").write_text("raise SystemExit('no such luck')")
    with pytest.raises(TorchrunFailed, match="no such luck"):
        machines.torchrun(tmp_path / "fails.py", machines=1)


def fails_on(rank: int) -> None:
    if dist.get_rank() == rank:
        raise ZeroDivisionError("on purpose")
    dist.barrier()


def prints_its_rank() -> None:
    print("here is", dist.get_rank())


@pytest.mark.everything
def test_a_rank_that_raises_is_named_and_what_ranks_print_is_shown(machines, capsys):
    with pytest.raises((RankOnHostFailed, RankFailed), match=r"rank 1[^$]*on purpose"):
        machines.run_ranks(fails_on, 1, per_machine=1)
    machines.run_ranks(prints_its_rank, per_machine=1)  # the next call works
    said = capsys.readouterr().out
    assert said.index("here is 0") < said.index("here is 1")


def never_ends() -> None:
    while True:
        dist.get_rank()


@pytest.mark.everything
@pytest.mark.skipif(bool(why_no_hosts()), reason=f"{why_no_hosts()}")
def test_ranks_on_hosts_that_never_end_are_ended():
    with TwoMachines() as machines:
        assert machines.run_ranks(dist.get_rank, per_machine=1) == [0, 1]
        with pytest.raises(RankOnHostFailed, match="not come back in time"):
            machines.run_ranks(never_ends, per_machine=1, seconds=5)
        assert machines.run_ranks(dist.get_rank, per_machine=1) == [0, 1]  # new hosts


@pytest.mark.everything
def test_closing_ends_everything_and_training_is_the_same_on_both(machines):
    import psutil

    found = machines.run_ranks(train_over_link, "16 bits", 16, per_machine=1)
    alone = run_ranks(train_over_link, "16 bits", 16)
    assert torch.equal(found[0].parameters, alone[0].parameters)
    assert found[0][0] == alone[0][0] == 602_132
    before = [p.pid for p in psutil.Process().children(recursive=True)]
    machines.close()  # the last test that uses them
    after = [p.pid for p in psutil.Process().children(recursive=True)]
    if not machines.why_simulated:
        assert len(after) < len(before)
        assert all(program.returncode is not None for program in machines.servers)


# Smaller gradients --------------------------------------------------------------------


def all_ways() -> dict:
    """Runs in each rank."""
    return {way: train_over_link(way) for way in WAYS_TO_SEND}


@pytest.fixture(scope="module")
def trained():
    return run_ranks(all_ways, timeout=300)


def test_replicas_are_equal_in_every_way(trained):
    for way in WAYS_TO_SEND:
        assert torch.equal(trained[0][way].parameters, trained[1][way].parameters), way


def said_of_hooks() -> list[str]:
    """Runs in a rank: what DDP says of each hook that is to send 16 bits."""
    said = []
    for hook in (default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
        replica = DistributedDataParallel(torch.nn.Linear(2, 2))
        try:
            replica.register_comm_hook(None, hook)
            said.append("taken")
        except TypeError as error:
            said.append(str(error))
    return said


@pytest.mark.skipif(dist.is_nccl_available(), reason="this torch has NCCL")
def test_without_nccl_the_hook_for_bfloat16_is_refused():
    [[half, bfloat]] = run_ranks(said_of_hooks, world_size=1)
    assert half == "taken"
    assert re.search("BF16 .* required .* NCCL", bfloat), bfloat


def test_bytes_per_step_are_those_of_the_text(trained):
    matrices = [(512, 64), (512, 512), (10, 512)]
    numbers = sum(rows * columns + rows for rows, columns in matrices)
    thin = sum(2 * (rows + columns) + rows for rows, columns in matrices)
    expected = {
        "as they are": 4 * numbers,
        "16 bits": 2 * numbers,
        "PowerSGD": 4 * thin,
        "top-k": 8 * round(numbers / 100),
        "top-k, forgets": 8 * round(numbers / 100),
        "local SGD": 4 * numbers // 8,
    }
    assert numbers == 301_066
    assert {way: trained[0][way].bytes_per_step for way in WAYS_TO_SEND} == expected


def train_with_plain_ddp(steps: int) -> torch.Tensor:
    """The oracle: torch's DDP without any hook."""
    rank, model = dist.get_rank(), wide_digits_network()
    replica = DistributedDataParallel(model)
    sgd = torch.optim.SGD(model.parameters(), lr=compressed.RATE_OF_LEARNING)
    images, labels = load_digits("train")
    dice = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        mine = torch.randint(len(images) // 2, (compressed.BATCH,), generator=dice)
        sgd.zero_grad()
        loss = F.cross_entropy(replica(images[rank::2][mine]), labels[rank::2][mine])
        loss.backward()
        sgd.step()
    return parameters_to_vector(model.parameters()).detach()


def test_gradients_sent_as_they_are_train_as_ddp_does():
    plain = run_ranks(train_with_plain_ddp, 16)[0]
    ours = run_ranks(train_over_link, "as they are", 16)[0].parameters
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-5)


def top_k_of_everything() -> tuple:
    gradient = torch.randn(50, generator=torch.Generator().manual_seed(dist.get_rank()))
    memory = torch.zeros(50)
    mean = top_k_mean(gradient, memory, 50)
    dist.all_reduce(gradient)
    return mean, gradient / dist.get_world_size(), memory


def test_top_k_of_all_entries_is_an_all_reduce():
    for mean, library, memory in run_ranks(top_k_of_everything, world_size=3):
        torch.testing.assert_close(mean, library)
        assert not memory.any()


def what_is_small_adds_up(rounds: int) -> tuple[torch.Tensor, torch.Tensor]:
    gradient, memory = torch.tensor([1.0, 0.3]), torch.zeros(2)
    means = [top_k_mean(gradient, memory, 1) for _ in range(rounds)]
    return torch.stack(means).sum(0), memory


def test_what_error_feedback_holds_back_is_late_and_not_lost():
    sent, memory = run_ranks(what_is_small_adds_up, 10, world_size=2)[0]
    torch.testing.assert_close(sent + memory, torch.tensor([10.0, 3.0]))
    assert sent[1] > 0


# The demos, and a script of your own --------------------------------------------------


@pytest.mark.everything
def test_two_hosts_says_in_one_sentence_that_there_are_none():
    said = said_by(ROOT / "demos/machines/two_hosts.py", **{FORBIDDEN: "1"})
    assert (
        said == f"no two hosts here: the environment variable {FORBIDDEN} forbids it\n"
    )


@pytest.mark.everything
def test_the_demo_goes_on_with_a_simulated_link():
    demo = ROOT / "demos/machines/hierarchical_all_reduce.py"
    said = said_by(demo, "--megabytes", "0.1", **{FORBIDDEN: "1"})
    assert said.startswith("simulated inside one machine: ")
    assert "150,000" in said and "100,000" in said


def loss_of_own_script() -> float:
    return train_compressed("fp16", "cpu")[1]


def test_the_script_of_your_own_learns_the_same_alone_and_in_ranks():
    [alone] = run_ranks(loss_of_own_script, world_size=1)
    assert abs(alone - run_ranks(loss_of_own_script)[0]) < 0.01


@pytest.mark.everything
@pytest.mark.skipif(bool(why_no_hosts()), reason="the notebook itself is this test")
def test_where_hosts_are_forbidden_the_lesson_shows_the_same(tmp_path):
    """The stored outputs were made on one branch: the other must print the same."""
    notebook = (ROOT / "solutions/18a_many_machines.ipynb").read_text("utf-8")
    notebook = json.loads(notebook)
    notebook["cells"] = [cell for cell in notebook["cells"] if _may_differ(cell)]
    shorter = tmp_path / "solutions/18a_many_machines.ipynb"
    shorter.parent.mkdir()
    shorter.write_text(json.dumps(notebook), "utf-8")
    command = ["-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "-c"]
    command += [str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}", str(shorter)]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {FORBIDDEN: "1"},
    )  # fmt: skip
    # Not its status: on a busy machine a helper may take longer to end than it allows.
    outcome = done.stdout[-4000:]
    assert re.search(r"^\d+ passed in", outcome, re.MULTILINE), outcome


def _may_differ(cell: dict) -> bool:
    """Exercises, the picture and a script alone are the same on both branches;
    torchrun has a test of its own."""
    code = "".join(cell["source"])
    same = "check(", "draw_timelines", "run_demo", ".torchrun("
    exercise = "exercise" in cell["metadata"] or any(word in code for word in same)
    return cell["cell_type"] == "code" and not exercise
