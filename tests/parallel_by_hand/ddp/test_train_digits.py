"""A training that was stopped goes on as if it never had been."""

import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import torch

from demos.ddp import train_digits as demo
from parallel_by_hand.ddp import train_digits
from sidebyside import run_ranks
from sidebyside.course.record import ROOT
from tests.process_state import TORCHRUN


def trained(mode: str, epochs: int, checkpoint: Path | None, ranks: int = 2) -> dict:
    args = {"lr": 0.1, "batch": 64, "save_every": 1, "mode": mode, "epochs": epochs}
    args = Namespace(checkpoint=checkpoint, **args)
    train = train_digits.train_digits_replica
    return run_ranks(train, args, os.devnull, world_size=ranks)[0]


def test_training_goes_on_from_a_checkpoint_as_if_never_stopped(
    tmp_path, monkeypatch, capsys
):
    """Even in another mode and with another number of ranks."""
    checkpoint = tmp_path / "digits.pt"
    whole = trained("single", 4, None, ranks=1)
    trained("ddp", 2, checkpoint)
    assert trained("ours", 4, checkpoint) == pytest.approx(whole, abs=1e-5)
    assert [p.name for p in tmp_path.iterdir()] == ["digits.pt"]

    def said(*args: object) -> str:
        """On one line, with status 2, before any rank starts."""
        command = "demo", "--checkpoint", checkpoint, *args
        monkeypatch.setattr(sys, "argv", [*map(str, command)])
        with pytest.raises(SystemExit) as stop:
            demo.main()
        assert stop.value.code == 2
        return capsys.readouterr().err.splitlines()[-1]

    monkeypatch.setattr(demo, "run_ranks", lambda *_, **__: pytest.fail("it started"))
    assert "has 4 epochs" in said("--epochs", 4)
    assert "was trained with --lr 0.1" in said("--lr", 1)
    assert "must be 1 with" in said("--mode", "single", "--ranks", 2)
    checkpoint.write_text("not one")
    assert "is not a checkpoint" in said()


@contextmanager
def endless_training(folder: Path, *before: str) -> Iterator[tuple]:
    """The program, after its first epoch, and its checkpoint; killed in the end."""
    checkpoint = folder / "digits.pt"
    script = str(ROOT / "demos/ddp/train_digits.py")
    endless = ["--epochs", "100000", "--checkpoint", str(checkpoint)]
    training = subprocess.Popen(
        [*before, script, *endless],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(folder)},  # torchrun leaves a folder there
    )
    try:
        assert training.stdout.readline().startswith("epoch    1")  # at once, not later
        yield training, checkpoint
    finally:
        if training.poll() is None:
            os.killpg(training.pid, signal.SIGKILL)
            training.communicate()


@pytest.mark.everything
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal")
def test_a_rank_that_is_warned_under_torchrun_makes_all_save_and_end(tmp_path):
    """Slurm warns every process: torchrun must not hear it, as resources/slurm says."""
    deaf = ["sh", "-c", 'trap "" USR1; exec "$@"', "-"]
    command = [*deaf, sys.executable, *TORCHRUN, "--nproc-per-node", "2"]
    with endless_training(tmp_path, *command) as (training, checkpoint):
        ranks = psutil.Process(training.pid).children()
        (second,) = (rank for rank in ranks if rank.environ().get("RANK") == "1")
        for process in training, second:
            process.send_signal(signal.SIGUSR1)
        said = training.communicate(timeout=100)[0]
    assert training.returncode == 0
    assert said.splitlines()[-1].startswith("warned; the same command goes on")

    epochs = torch.load(checkpoint)["epoch"] + 1
    whole, rest = (trained("ours", epochs, file) for file in (None, checkpoint))
    assert rest == whole, "exactly as if never stopped"
