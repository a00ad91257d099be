"""Four sick programs, to be named from their traces: two steps of two ranks each."""

from contextlib import contextmanager
from time import sleep

import torch
import torch.distributed as dist
from torch.profiler import record_function

from parallel_by_hand.ddp.ddp_from_scratch import (
    DistributedDataParallel,
    start_all_reduce,
)
from parallel_by_hand.ddp.step_speed import NETWORKS, step_of
from parallel_by_hand.ddp.step_traces import profile_step
from sidebyside import span

LATE = 0.06  # seconds of a nap
ILLNESSES = ("starving loader", "one bucket", "straggler", "waits for each message")
PATIENTS = {"A": "straggler", "B": "one bucket"}
PATIENTS |= {"C": "waits for each message", "D": "starving loader"}


def awaited_all_reduce(message: torch.Tensor) -> dist.Work | None:
    """An all-reduce that is over before backward goes on."""
    work = start_all_reduce(message)
    work.wait()
    return work


def trace_of_program(illness: str = "none") -> dict:
    """Runs in each rank: the trace of two steps, well or with one of ILLNESSES."""
    make, batch = NETWORKS["deep"]
    rank = dist.get_rank()
    limit = 2**30 if illness == "one bucket" else 2**21
    waits = illness == "waits for each message"
    send = awaited_all_reduce if waits else None
    replica = DistributedDataParallel(make(), limit, send)
    step = step_of(replica, batch // dist.get_world_size(), rank)

    @contextmanager
    def mark(phase: str):
        with record_function(phase), span(phase):
            if phase == "forward" and illness == "straggler" and rank == 1:
                sleep(LATE)
            yield

    def two_steps() -> None:
        for _ in range(2):
            if illness == "starving loader":
                sleep(LATE)
            step(mark)

    return profile_step(two_steps)


def trace_patients() -> dict[str, dict]:
    """Runs in each rank: the trace of each patient, by its letter."""
    return {letter: trace_of_program(illness) for letter, illness in PATIENTS.items()}
