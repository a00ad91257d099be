"""Accidents: a server or a worker is killed, and a checkpoint brings the run back."""

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from parallel_by_hand.checkpoints.atomic_file import save_atomically
from parallel_by_hand.parameter_server.digits_server import DigitsGradient, digits_start
from parallel_by_hand.parameter_server.server_and_workers import (
    letter_group,
    serve_at_once,
    serve_in_step,
    work,
)
from sidebyside.ranks.failures import is_lost_connection


def load_server(path: Path) -> tuple[int, Tensor]:
    """Version and parameters of the checkpoint, or of the start if there is none."""
    if not path.exists():
        return 0, digits_start()
    saved = torch.load(path, weights_only=True)
    return saved["version"], saved["share"]


def train_with_checkpoints(
    path: Path,
    updates: int,
    victim: int | None = None,
    at: int = 0,
    every: int = 10,
    design: str = "in step",
) -> tuple[int, Tensor] | None:
    """Runs in each rank: rank 0 serves, and saves against failures every so often.

    Rank `victim` is killed when it meets version `at` or a later one. Returns, in rank
    0, the version at which this run began, and the parameters at its end. `design` is
    "in step" or "at once"; at once, the letters of each run count from 0.
    """
    rank = dist.get_rank()
    letter_group()

    def meet(version: int) -> None:
        if rank == victim and version >= at:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows

    if rank > 0:
        gradient_of = DigitsGradient(rank - 1)

        def gradient_or_death(parameters: Tensor, version: int) -> Tensor:
            meet(version)
            return gradient_of(parameters, version)

        work(gradient_or_death, [0], len(digits_start()))
        return None

    def note(version: int, worker, staleness: int, share: Tensor) -> None:
        if version % every == 0:
            save_atomically({"version": version, "share": share}, path)
        meet(version)

    first, share = load_server(path)
    workers = range(1, dist.get_world_size())
    if design == "in step":
        serve_in_step(share, workers, 0.5, updates, note, first)
    else:
        left = updates - first
        serve_at_once(
            share, workers, 0.5, left, lambda n, *rest: note(first + n, *rest)
        )
    return first, share


class _EnoughUpdates(Exception):
    """The server has what it wants, and does not say goodbye to anybody."""


def train_while_worker_is_lost(updates: int, at: int, nap: float) -> list[int] | str:
    """Runs in each rank: at once, and the last rank is lost when it meets version `at`.

    It drops all its connections, as the system does for a process that is killed. (To
    be killed in earnest would end the other ranks, too: `run_ranks` sees to that.) The
    server, rank 0, returns whose gradients it got. It cannot end well: it would wait
    for the lost worker's last letter. So it hangs up when it has enough, and is lost to
    the others. A worker returns who was lost. Until version `at` nobody gets more than
    three gradients ahead: by then all have been heard.
    """
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    letter_group()
    gradient_of = DigitsGradient(rank, nap)
    gradient_of(digits_start(), 0)  # reads the images
    dist.barrier()
    if rank > 0:
        return _work_until_lost(gradient_of, at if rank == last else updates)
    workers_heard = []

    def note(version: int, worker, staleness: int, share: Tensor) -> None:
        workers_heard.append(worker)
        if version == updates:
            raise _EnoughUpdates

    def goes_on(pushes: dict[int, int], waiting: list[int]) -> list[int]:
        if sum(pushes.values()) >= at:
            return waiting
        return [one for one in waiting if pushes[one] <= min(pushes.values()) + 2]

    everyone = range(1, last + 1)
    try:
        serve_at_once(digits_start(), everyone, 0.1, 2 * updates, note, goes_on)
    except _EnoughUpdates:
        dist.destroy_process_group()
    return workers_heard


def _work_until_lost(gradient_of: DigitsGradient, at: int) -> str:
    """Work until version `at` is met, or the server has hung up: who was lost?"""

    def gradient_or_loss(parameters: Tensor, version: int) -> Tensor:
        if version >= at:
            raise _EnoughUpdates
        return gradient_of(parameters, version)

    try:
        work(gradient_or_loss, [0], len(digits_start()))
    except _EnoughUpdates:
        dist.destroy_process_group()
        return "this worker"
    except RuntimeError as error:  # of gloo
        if not is_lost_connection(error):
            raise
        return "the server"
    return "nobody"
