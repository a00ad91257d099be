"""The job of resources/slurm does under a real Slurm what its page says.

Slurm's own daemons run here, one controller and two nodes: tests/small_slurm.py.
Where they are not installed these tests are skipped.
"""

import os
import re
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import psutil
import pytest
import torch

from parallel_by_hand.ddp.train_digits import train_digits_replica
from sidebyside import run_ranks
from sidebyside.course.record import ROOT
from tests import small_slurm as small
from tests.small_slurm import SmallSlurm, small_slurm, why_no_small_slurm

pytestmark = pytest.mark.everything

needs_slurm = pytest.mark.skipif(
    bool(why_no_small_slurm()), reason=why_no_small_slurm()
)
SCRIPT = "resources/slurm/train_digits.sbatch"
PAGE = (ROOT / "resources/slurm/README.md").read_text(encoding="utf-8")
EPOCHS = 20  # of the job that is warned: it is stopped in one of the first


@pytest.fixture(scope="module")
def slurm():
    with small_slurm() as slurm:
        yield slurm


class DigitsJob:
    """The script, submitted in the course's folder."""

    def __init__(self, slurm: SmallSlurm, name: str, epochs: int, *arguments: object):
        self.slurm, self.epochs = slurm, epochs
        self.checkpoint = slurm.folder / f"{name}.pt"
        self.output = slurm.folder / f"{name}.out"
        where = "--chdir", ROOT, "--output", self.output, "--parsable"
        self.number = slurm.run(
            *("sbatch", *where, SCRIPT, *arguments),
            PYTHON=sys.executable,
            EPOCHS=epochs,
            CHECKPOINT=self.checkpoint,
            GLOO_SOCKET_IFNAME="lo",  # both nodes are this machine
        )

    def state(self) -> str:
        return self.slurm.job(self.number)["JobState"]

    def said(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    def finish(self) -> str:
        """What the training says in the end."""
        under_way = "PENDING", "RUNNING", "COMPLETING"
        self.slurm.wait_until(lambda: self.state() not in under_way)
        assert self.state() == "COMPLETED", self.said()
        [last] = re.findall("^ours, .*$", self.said(), re.MULTILINE)  # an agent that
        return last  # is left alone may warn after it


def train_on_one_machine(folder: Path, *settings: tuple[int, float]) -> list[dict]:
    """Runs in each rank; the checkpoints of whole trainings with (epochs, lr)."""
    kept = []
    for epochs, lr in settings:
        file = folder / f"whole-{epochs}-{lr}.pt"
        args = Namespace(
            mode="ours", lr=lr, epochs=epochs, batch=64, checkpoint=file, save_every=999
        )
        train_digits_replica(args, "/dev/null")
        kept.append(file)
    return kept


@pytest.fixture(scope="module")
def whole(slurm) -> dict:
    """What two ranks of one machine have at the end, without an interruption."""
    settings = (3, 0.1), (3, 0.05), (EPOCHS, 0.1)
    files = run_ranks(train_on_one_machine, slurm.folder, *settings)[0]
    return dict(zip(settings, map(torch.load, files), strict=True))


def same_training(file: Path, whole: dict) -> bool:
    """Bit for bit: the parameters, and the momentum of each of them."""
    saved = torch.load(file)
    torch.testing.assert_close(saved, whole, rtol=0, atol=0)
    return True


@needs_slurm
def test_two_jobs_at_once_train_each_as_one_machine_does(slurm, whole):
    """On the same two nodes, whose address is the same: neither joins the other."""
    jobs = {lr: DigitsJob(slurm, f"{lr}", 3, "--lr", lr) for lr in (0.1, 0.05)}
    for lr, job in jobs.items():
        assert job.finish().startswith("ours, ranks: 2, epochs: 3, loss")
        assert f"job {job.number}.0 on n[1-2] meets at 127.0.0.1" in job.said()
        assert same_training(job.checkpoint, whole[3, lr])
    times = [slurm.job(job.number) for job in jobs.values()]
    last_start = max(time["StartTime"] for time in times)
    assert last_start < min(time["EndTime"] for time in times), "at once"


@needs_slurm
def test_a_job_that_is_warned_saves_and_goes_on_later_as_if_never_stopped(slurm, whole):
    """Slurm warns it, for a more urgent job needs both nodes."""
    job = DigitsJob(slurm, "warned", EPOCHS, "--save-every", 999)
    rank_that_expects_a_warning(slurm, job).suspend()  # until Slurm wakes and warns it
    assert not job.checkpoint.exists()
    urgent = slurm.run(
        *("sbatch", "--parsable", "--partition=urgent", "--nodes=2"),
        *("--cpus-per-task=2", "--chdir", slurm.folder, "--wrap", "srun true"),
    )
    slurm.wait_until(lambda: slurm.job(urgent)["JobState"] == "COMPLETED")

    assert (job.state(), slurm.job(job.number)["Restarts"]) == ("PENDING", "1")
    assert "warned; the same command goes on from the checkpoint" in job.said()
    assert torch.load(job.checkpoint)["epoch"] < EPOCHS
    # Slurm itself would wait for two minutes.
    slurm.run("scontrol", "update", f"JobId={job.number}", "StartTime=now+2")
    assert job.finish().startswith(f"ours, ranks: 2, epochs: {EPOCHS}, loss")
    epochs = [int(number) for number in re.findall(r"^epoch +(\d+)", job.said(), re.M)]
    assert epochs == [*range(1, EPOCHS + 1)], "each of them once"
    assert same_training(job.checkpoint, whole[EPOCHS, 0.1])


def rank_that_expects_a_warning(slurm: SmallSlurm, job: DigitsJob) -> psutil.Process:
    found = []

    def look() -> bool:
        for process in psutil.process_iter():
            try:
                own = process.environ()
            except psutil.Error:
                continue
            if own.get("SLURM_JOB_ID") == job.number and own.get("RANK") == "1":
                found.append(process)
        return bool(found)

    slurm.wait_until(look)
    slurm.wait_until(lambda: catches_warning(found[0]), every=0.01)
    return found[0]  # the rank; what it starts comes behind it


def catches_warning(process: psutil.Process) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"^SigCgt:\s*(\w+)", status, re.M)[1], 16)
    return bool(caught >> (signal.SIGUSR1 - 1) & 1)


@needs_slurm
def test_the_shell_that_the_page_opens_speaks_to_two_idle_nodes():
    done = subprocess.run(
        [sys.executable, "-m", "tests.small_slurm"],
        cwd=ROOT,
        input="sinfo --noheader --format='%D %T'\n",
        env=os.environ | {"SHELL": "sh"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[1:] == ["2 idle"], done.stderr


# Without Slurm ------------------------------------------------------------------------


def test_who_lacks_slurm_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(small, "PATH", "")
    assert f"apt-get install {small.PACKAGES}" in why_no_small_slurm()
    assert f"apt-get install {small.PACKAGES}" in PAGE
    assert small.PACKAGES in (ROOT / ".ci/run").read_text()


def test_the_page_explains_what_the_script_asks_of_slurm():
    script = (ROOT / SCRIPT).read_text()
    asked = re.findall(r"^#SBATCH (--[\w-]+)", script, re.M)
    explained = re.findall(r"^\| `(--[\w-]+)[^`]*` \|", PAGE, re.M)
    assert asked == explained
