"""Ranks that nobody watches over, one of which fails: what the others say, and when.

Unlike the ranks of `run_ranks`, which all end when one of them dies.
"""

import os
import re
import signal
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from time import perf_counter, sleep
from typing import NamedTuple

import torch
import torch.distributed as dist

from sidebyside.programs.run_program import end_with_parent
from sidebyside.ranks.launch import context_of_ranks
from sidebyside.ranks.meeting import keep_gloo_on_loopback

FAILURES = {
    "killed": signal.SIGKILL,  # the system closes its connections
    "frozen": signal.SIGSTOP,  # connections stay open, and nothing comes any more
}


class LastWords(NamedTuple):
    """What a rank that is left said when another failed, and when."""

    rank: int
    steps: int  # that it finished
    said: str
    seconds: float  # in the call that failed


@contextmanager
def group_with_time_limit(rank: int, ranks: int, folder: str, limit: float):
    """For ranks that fail: a group on the CPU; a collective waits `limit` seconds."""
    torch.set_num_threads(1)
    keep_gloo_on_loopback()
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=limit),
    )
    yield
    os._exit(0)  # no farewell to a group in which somebody is missing


def _take_steps(
    rank: int, ranks: int, folder: str, how: str, limit: float, words
) -> None:
    """Runs in a process of its own; the last rank fails before its sixth step."""
    end_with_parent()
    words.send("here")
    words.recv()  # all are here: the limit does not count until then
    with group_with_time_limit(rank, ranks, folder, limit):
        gradient, steps = torch.ones(1000), 0
        while True:
            if rank == ranks - 1 and steps == 5:
                os.kill(os.getpid(), FAILURES[how])
            began = perf_counter()
            try:
                dist.all_reduce(gradient)
            except RuntimeError as error:
                seconds = perf_counter() - began
                words.send(LastWords(rank, steps, gist_of_error(error), seconds))
                return
            sleep(0.01)
            steps += 1


def gist_of_error(error: Exception) -> str:
    """What of gloo's message says why a rank failed, without files and addresses."""
    says = r"Connection \w+ by peer|Broken pipe|Timed out waiting \d+ms"
    known = re.search(says, str(error))
    return known[0] if known else str(error).splitlines()[0]


def ask_survivors(how: str, ranks: int = 3, limit: float = 3) -> list[LastWords]:
    """The last words of all ranks but the last, which fails: killed or frozen."""
    context = context_of_ranks()
    pipes = [context.Pipe() for _ in range(ranks)]
    with tempfile.TemporaryDirectory() as folder:
        crew = [
            context.Process(
                target=_take_steps,
                args=(rank, ranks, folder, how, limit, pipe[1]),
                daemon=True,
            )
            for rank, pipe in enumerate(pipes)
        ]
        try:
            for process in crew:
                process.start()
            for _, end in pipes:
                end.close()  # so that an end is noticed here
            for inbox, _ in pipes:
                inbox.recv()
            for inbox, _ in pipes:
                inbox.send("all are here")
            return [inbox.recv() for inbox, _ in pipes[:-1]]
        finally:
            for process in crew:
                process.kill()  # ends a frozen process, too
                process.join()
            for inbox, _ in pipes:
                inbox.close()
