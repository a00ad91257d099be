"""Digits, trained with checkpoints, by ranks of which one is killed on purpose."""

import json
import os
import signal
from pathlib import Path
from time import sleep
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it

from parallel_by_hand.checkpoints.atomic_file import load_checkpoint, save_atomically
from parallel_by_hand.failures.resumable_training import DigitsTraining
from parallel_by_hand.failures.training_snapshots import restore, snapshot
from sidebyside import span


class Life(NamedTuple):
    """A life of the resumed training: from the start of all ranks to the end of one."""

    number: int
    ranks: int
    step: int  # after which it begins

    def __str__(self) -> str:
        who = f"{self.ranks} ranks begin" if self.ranks > 1 else "1 rank begins"
        return f"life {self.number}: {who} after step {self.step}"


class Run(NamedTuple):
    """A run to be resumed. `accidents` maps a life to the (rank, step) of its end."""

    folder: Path
    steps: int
    every: int  # steps from one checkpoint to the next
    accidents: dict[int, tuple[int, int]] | None = None
    dropout: float = 0.2
    nap: float = 0  # seconds that a step sleeps

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    @property
    def lives(self) -> list[Life]:
        """From the log, a line of JSON for each."""
        return [Life(*json.loads(line)) for line in self.log.read_text().splitlines()]

    @property
    def log(self) -> Path:
        return self.folder / "log.jsonl"


def train_through_accidents(life: int, run: Run) -> None:
    """Runs in each rank: go on from the checkpoint, if there is one."""
    training = DigitsTraining(dropout=run.dropout)
    if run.checkpoint.exists():
        _restore(training, load_checkpoint(run.checkpoint))
    _note_in_log(run, life, training.step)
    while training.step < run.steps:
        if (run.accidents or {}).get(life) == (dist.get_rank(), training.step):
            os.kill(os.getpid(), signal.SIGKILL)
        with span(f"step {training.step + 1}"):
            sleep(run.nap)
            training.take_step()
        if training.step % run.every == 0 or training.step == run.steps:
            with span("save"):
                _save(training, run.checkpoint)


def _save(training: DigitsTraining, path: Path) -> None:
    """Rank 0 writes what all share, and every rank's noise. All ranks call it."""
    saved, noises = snapshot(training), [None] * dist.get_world_size()
    dist.all_gather_object(noises, saved.pop("noise"))
    if dist.get_rank() == 0:
        save_atomically(saved | {"noises": noises}, path)
    dist.barrier()  # nobody is ahead of a checkpoint that is not there


def _restore(training: DigitsTraining, saved: dict) -> None:
    """With as many ranks as before each gets its noise; a new rank keeps its own."""
    rank, noises = dist.get_rank(), saved["noises"]
    noise = noises[rank] if rank < len(noises) else training.noise.get_state()
    restore(training, saved | {"noise": noise})


def _note_in_log(run: Run, life: int, step: int) -> None:
    if dist.get_rank() == 0:
        with open(run.log, "a", encoding="utf-8") as file:
            file.write(json.dumps(Life(life, dist.get_world_size(), step)) + "\n")


def trained_parameters(run: Run) -> torch.Tensor:
    """All parameters of the resumed run's checkpoint, in one vector."""
    model = load_checkpoint(run.checkpoint)["model"]
    return torch.cat([tensor.flatten() for tensor in model.values()])
