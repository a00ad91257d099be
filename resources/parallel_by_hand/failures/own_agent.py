"""What an agent such as torchrun's does: start all ranks, and again if one dies."""

import os
import tempfile
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it

from sidebyside.programs.run_program import end_with_parent
from sidebyside.ranks.failures import is_lost_connection
from sidebyside.ranks.launch import context_of_ranks
from sidebyside.ranks.meeting import keep_gloo_on_loopback
from sidebyside.timeline.spans import label_process


class TooManyRestarts(RuntimeError):
    """A rank died once more than our own agent starts ranks again."""


def run_with_restarts(
    train: Callable, ranks: int, *args, max_restarts: int = 3, elastic: bool = False
) -> int:
    """Our own agent: call `train(life, *args)` in `ranks` processes until all end well.

    If one dies, all are killed and started again, those that were well too: without
    it, they could only wait. Each start is a *life*, counted from 0. With `elastic`
    the next life has one rank fewer. Returns the number of restarts.
    """
    for life in range(max_restarts + 1):
        with tempfile.TemporaryDirectory() as meeting:
            crew = _start_crew(train, ranks, meeting, life, *args)
            try:
                dead = _wait_for_crew(crew)
            finally:
                for process in crew:
                    process.kill()
                    process.join()
        if not dead:
            return life
        ranks -= elastic
        if not ranks:
            break
    raise TooManyRestarts(f"a rank has died {life + 1} times")


def _start_crew(train: Callable, ranks: int, meeting: str, life: int, *args) -> list:
    context = context_of_ranks()
    crew = [
        context.Process(
            target=join_and_train,
            args=(train, rank, ranks, meeting, life, *args),
            daemon=True,
        )
        for rank in range(ranks)
    ]
    for process in crew:
        process.start()
    return crew


def _wait_for_crew(crew: list) -> bool:
    """Wait until all have ended, or one has ended badly: whether one has."""
    left = {process.sentinel: process for process in crew}
    while left:
        for sentinel in wait(left):
            process = left.pop(sentinel)
            process.join()
            if process.exitcode:
                return True
    return False


def join_and_train(
    train: Callable, rank: int, ranks: int, meeting: str, life: int, *args
) -> None:
    """Runs in a process of our own agent: join the group, train, leave the group."""
    end_with_parent()
    label_process(f"rank {rank}")
    torch.set_num_threads(1)
    keep_gloo_on_loopback()
    where = Path(meeting, "meet").as_uri()
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks)
    try:
        train(life, *args)
        dist.destroy_process_group()
    except RuntimeError as error:  # of gloo: another rank is gone, the agent knows
        if not is_lost_connection(error):
            raise
        os._exit(1)
