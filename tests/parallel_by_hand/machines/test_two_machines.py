"""Both ways to have two machines, real hosts and a simulated link, do the same."""

import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.machines.compressed_gradients import train_over_link
from parallel_by_hand.machines.hierarchical_all_reduce import bytes_across, time_across
from parallel_by_hand.machines.hosts import FORBIDDEN, why_no_hosts
from parallel_by_hand.machines.two_machines import RankOnHostFailed, TwoMachines
from sidebyside import RankFailed, run_ranks
from sidebyside.course.record import ROOT

pytestmark = pytest.mark.everything


@pytest.fixture(scope="module", params=["hosts", "simulated"])
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


def who_and_where() -> tuple:
    names = ["RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"]
    return tuple(int(os.environ[name]) for name in names)


def test_both_branches_tell_ranks_where_they_are(machines):
    found = machines.run_ranks(who_and_where, per_machine=2)
    assert found == [(0, 0, 0, 4, 2), (1, 1, 0, 4, 2), (2, 0, 1, 4, 2), (3, 1, 1, 4, 2)]
    assert ("simulated" in repr(machines)) == bool(machines.why_simulated)


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


def test_both_branches_start_torchrun_on_each_machine(machines):
    said = machines.torchrun(ROOT / "demos/machines/roll_call.py", per_machine=1)
    for node, text in enumerate(said):
        assert f"RANK {node}, LOCAL_RANK 0, GROUP_RANK {node}, WORLD_SIZE 2" in text


def test_roll_call_says_so_if_torchrun_has_not_started_it():
    demo = ROOT / "demos/machines/roll_call.py"
    assert b"start it with torchrun" in subprocess.check_output([sys.executable, demo])


def fails_on(rank: int) -> None:
    if dist.get_rank() == rank:
        raise ZeroDivisionError("on purpose")
    dist.barrier()


def prints_its_rank() -> None:
    print("here is", dist.get_rank())


def test_a_rank_that_raises_is_named_and_what_ranks_print_is_shown(machines, capsys):
    with pytest.raises((RankOnHostFailed, RankFailed), match=r"rank 1[^$]*on purpose"):
        machines.run_ranks(fails_on, 1, per_machine=1)
    machines.run_ranks(prints_its_rank, per_machine=1)  # the next call works
    said = capsys.readouterr().out
    assert said.index("here is 0") < said.index("here is 1")


def never_ends() -> None:
    while True:
        dist.get_rank()


@pytest.mark.skipif(bool(why_no_hosts()), reason=f"{why_no_hosts()}")
def test_ranks_on_hosts_that_never_end_are_ended():
    with TwoMachines() as machines:
        assert machines.run_ranks(dist.get_rank, per_machine=1) == [0, 1]
        with pytest.raises(RankOnHostFailed, match="not come back in time"):
            machines.run_ranks(never_ends, per_machine=1, seconds=5)
        assert machines.run_ranks(dist.get_rank, per_machine=1) == [0, 1]  # new hosts


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
