"""Lesson 18c: patients are sick as the lesson says, and tools say what it says.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import contextlib
import io
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.clinic import examinations, patient_data, ward
from parallel_by_hand.clinic.one_seed import gwen
from parallel_by_hand.clinic.sick_programs import PATIENTS
from sidebyside import RankFailed, RanksHung, run_ranks
from sidebyside.course.record import ROOT
from tests.process_state import TORCHRUN

SICK = {name: "\n".join(ward.patient_lines(name)) for name in PATIENTS}


# The patients -------------------------------------------------------------------------


@pytest.mark.everything
def test_no_tool_complains_of_shards_from_one_seed(monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    with ward.on_cpus():
        sick, well = (
            run_ranks(gwen, one, 4, 100, world_size=2) for one in (True, False)
        )
    assert torch.equal(sick[0][2], sick[1][2])
    assert not torch.equal(well[0][2], well[1][2])
    assert sick[0][0][0] > sick[0][0][1] > well[0][0][1], "it falls, but less"


def errors_of_dan(counts: list[int], timeout: float = 60) -> list:
    with ward.on_cpus(), contextlib.redirect_stdout(io.StringIO()):
        given = patient_data.rows_of_ranks(counts)
        patient = "dan", SICK["dan"], given
        return run_ranks(
            ward.run_patient_in_rank, *patient, world_size=3, timeout=timeout
        )


@pytest.mark.everything
def test_the_rank_that_is_killed_need_not_be_the_guilty_one():
    with pytest.raises(RankFailed, match=r"rank [01] was killed by SIGABRT"):
        errors_of_dan([6, 6, 8])  # rank 2 is the odd one out


@pytest.mark.everything
def test_with_other_sizes_the_same_mistake_hangs():
    with pytest.raises(RanksHung) as error:
        errors_of_dan([4, 4, 3], timeout=5)
    assert "all_reduce" in error.value.details
    assert len(set(errors_of_dan([4, 4, 4]))) == 1


# The tools ----------------------------------------------------------------------------


def error_at_the_time_limit() -> str:
    dist.barrier()
    group = dist.new_group(timeout=timedelta(seconds=2))
    if dist.get_rank():
        return "never comes"
    with pytest.raises(RuntimeError) as caught:
        dist.all_reduce(torch.ones(1), group=group)
    return str(caught.value)


@pytest.mark.everything
def test_at_the_time_limit_only_the_debug_level_says_who_is_missing(monkeypatch):
    with ward.on_cpus():
        plain = run_ranks(error_at_the_time_limit, world_size=3)
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
        detail = run_ranks(error_at_the_time_limit, world_size=3)
    assert "Timed out waiting 2000ms for recv operation to complete" in plain[0]
    assert "Ranks 1, 2 failed to pass monitoredBarrier in 2000 ms" in detail[0]


def one_message_and_one_all_reduce() -> None:
    if (rank := dist.get_rank()) < 2:
        [dist.send, dist.recv][rank](torch.ones(1), 1 - rank)
    dist.all_reduce(torch.ones(1))


@pytest.mark.everything
def test_the_debug_level_gives_a_false_alarm_after_unequal_messages(monkeypatch):
    with ward.on_cpus():
        run_ranks(one_message_and_one_all_reduce, world_size=3)
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
        with pytest.raises(RankFailed, match="Detected mismatch"):
            run_ranks(one_message_and_one_all_reduce, world_size=3)


def collectives_of_one_all_reduce() -> list[str]:
    dist.all_reduce(torch.ones(1))
    return [e["profiling_name"] for e in examinations.recorded_collectives()]


@pytest.mark.everything
def test_with_the_debug_level_two_all_gathers_precede_each_collective(monkeypatch):
    with ward.on_cpus():
        plain = run_ranks(collectives_of_one_all_reduce)
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
        detail = run_ranks(collectives_of_one_all_reduce)
        monkeypatch.delenv("TORCH_DISTRIBUTED_DEBUG")
        again = run_ranks(collectives_of_one_all_reduce)
    assert plain == again == [["gloo:all_reduce"]] * 2
    assert detail == [["gloo:all_gather", "gloo:all_gather", "gloo:all_reduce"]] * 2


@pytest.mark.everything
def test_no_tool_says_anything_about_the_silent_patient():
    assert examinations.hang_report("cleo", timeout=60) == ["all ranks have finished"]
    of_ranks = [line.split(": ")[1] for line in examinations.flight_recorder("cleo")]
    assert len(set(of_ranks)) == 1
    assert {line.split(": ")[1] for line in examinations.monitored_barrier("cleo")} == {
        "has finished"
    }


def test_nccls_recorder_keeps_the_entries_of_the_table():
    header = "include/torch/csrc/distributed/c10d/FlightRecorder.hpp"
    said = (Path(torch.__file__).parent / header).read_text()
    assert re.search(r'"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_\w+"}, 2000\)', said)


# A watchdog of your own ---------------------------------------------------------------


@pytest.mark.everything
def test_the_watchdog_says_where_a_rank_is_stuck_and_ends_it():
    script = ROOT / "demos/clinic/own_watchdog.py"
    command = [sys.executable, str(script), "--stuck", "0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "Timeout" in done.stderr
    line = 1 + script.read_text().splitlines().index(
        "            time.sleep(60)  # as if it read from a server that does not answer"
    )
    assert f'own_watchdog.py", line {line} in train' in done.stderr


@pytest.mark.everything
def test_torchrun_ends_the_job_when_one_of_two_ranks_is_stuck(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # it leaves a folder there
    script = str(ROOT / "demos/clinic/own_watchdog.py")
    command = [sys.executable, *TORCHRUN, "--nproc-per-node=2", script, "--stuck", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "Timeout" in done.stderr
    assert "summed up" not in done.stdout
