"""The clinic's tools: each looks into the ranks of a sick program in another way."""

import contextlib
import faulthandler
import io
import os
import pickle
import re
import tempfile
import textwrap
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from multiprocessing.pool import ThreadPool
from threading import Thread
from unittest import mock

import torch
import torch.distributed as dist

from parallel_by_hand.clinic.patient_data import data_of_patient
from parallel_by_hand.clinic.sick_programs import PATIENTS
from parallel_by_hand.clinic.ward import (
    on_cpus,
    patient_lines,
    run_patient,
    run_patient_in_rank,
)
from sidebyside import RankFailed, RanksHung, run_ranks

SECONDS = 1  # that a rank has before somebody looks


def _begin_together() -> None:
    """All wait until the last has imported. By the store: the recorder sees nothing."""
    store = dist.distributed_c10d._get_default_store()
    if store.add("ranks that are here", 1) == dist.get_world_size():
        store.set("all are here", "yes")
    store.wait(["all are here"])


def watched(program: Callable, seconds: float, look: Callable):
    """Runs in each rank: what `look()` finds after so many seconds of the program."""
    worker = Thread(target=program, daemon=True)
    worker.start()
    worker.join(seconds)
    return look()


# What there is to see in a rank -------------------------------------------------------


def recorded_collectives() -> list[dict]:
    """The flight recorder of this rank, for an examination: its collectives so far.

    `_dump_fr_trace` is not public. With NCCL, torch's watchdog writes it to a file.
    """
    return pickle.loads(torch._C._distributed_c10d._dump_fr_trace())["entries"]  # pyright: ignore[reportAttributeAccessIssue]  private


def stacks_of_threads() -> str:
    """In the clinic: where each thread of a rank is, as `faulthandler` writes it."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()


def all_reduce_behind_barrier(tensor: torch.Tensor, all_reduce=dist.all_reduce) -> None:
    """In the clinic: an all-reduce that first asks whether all ranks are there."""
    dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=True)
    all_reduce(tensor)


# The same of a patient, in words ------------------------------------------------------


def error_of_patient(*patient, seconds: float = SECONDS) -> str:
    """Runs in each rank: how the program stands, or the error that it raised."""
    said = ["still waits"]

    def work() -> None:
        try:
            run_patient_in_rank(*patient)
            said[0] = "has finished"
        except RuntimeError as error:
            said[0] = _in_short(str(error))

    _begin_together()
    return watched(work, seconds, lambda: said[0])


def _error_at_barrier(*patient) -> str:
    with mock.patch.object(dist, "all_reduce", all_reduce_behind_barrier):
        return error_of_patient(*patient, seconds=2 * SECONDS)


def _in_short(error: str) -> str:
    """Torch's sentence without types and devices, and without what gloo adds."""
    error = error.partition("\n Original exception")[0].replace("vs ", " vs ")
    error = re.sub(
        r"collective: CollectiveFingerPrint\(.*?OpType=(\w+), TensorShape=(\[.*?\]).*?"
        r"nullopt\)+",
        r"\1 of shape \2",
        error,
    )
    said = "Detected mismatch between collectives on ranks. "
    error = " ".join(error.split()).removeprefix(said).partition(".Collectives")[0]
    return re.sub(r"^\[?Rank \d+\]?:? ", "", error)


def _records_of_patient(*patient) -> str:
    _begin_together()
    watched(partial(run_patient_in_rank, *patient), SECONDS, lambda: None)
    return ", ".join(map(_record_in_short, recorded_collectives())) or "nothing"


def _record_in_short(entry: dict) -> str:
    """Its number, what was called, the line of the patient and the state."""
    what = entry["profiling_name"].removeprefix("gloo:")
    line = next(f["line"] for f in entry["frames"] if f["filename"].startswith("<"))
    return f"{entry['collective_seq_id']} {what} line {line} {entry['state']}"


def _line_of_patient(*patient) -> str:
    _begin_together()
    dump = watched(partial(run_patient_in_rank, *patient), SECONDS, stacks_of_threads)
    line = re.search(rf'File "<{patient[0]}>", line (\d+) in', dump)
    return f"line {line[1]}" if line else "not in the program"


def _in_ranks(look: Callable, name: str) -> list[str]:
    """What `look` finds in each of three ranks; or how one of them failed."""
    patient = name, "\n".join(patient_lines(name)), data_of_patient(name)
    try:
        return run_ranks(look, *patient, world_size=3, timeout=60)
    except RankFailed as error:
        return [str(error)]


def _by_rank(look: Callable, name: str) -> list[str]:
    """The same as lines to print. What the ranks print themselves is left out."""
    with on_cpus(), contextlib.redirect_stdout(io.StringIO()):
        found = _in_ranks(look, name)
    if len(found) == 1:
        return found
    return [f"rank {rank}: {seen}" for rank, seen in enumerate(found)]


# The tools ----------------------------------------------------------------------------


def hang_report(name: str, timeout: float = 3) -> list[str]:
    """An examination: what `run_ranks` says when time is over, or a rank has failed."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run_patient(name, timeout=timeout)
    except (RankFailed, RanksHung) as error:
        return [str(error), *error.details.splitlines()]
    return ["all ranks have finished"]


def debug_detail(name: str) -> list[str]:
    """An examination: the error of each rank with TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    with mock.patch.dict(os.environ, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
        return _by_rank(error_of_patient, name)


def monitored_barrier(name: str) -> list[str]:
    """An examination: each rank's error with a monitored barrier before all-reduces."""
    return _by_rank(_error_at_barrier, name)


def flight_recorder(name: str) -> list[str]:
    """An examination: what each rank's flight recorder holds."""
    return _by_rank(_records_of_patient, name)


TOOLS = {
    "report": hang_report,
    "detail": debug_detail,
    "barrier": monitored_barrier,
    "recorder": flight_recorder,
    "stacks": partial(_by_rank, _line_of_patient),
}


def examine_patient(name: str, tool: str) -> None:
    """Print what a tool finds: "report", "detail", "barrier", "recorder", "stacks"."""
    for line in TOOLS[tool](name):
        print(textwrap.fill(line, 100, subsequent_indent=" " * len("rank 0: ")))


# All patients -------------------------------------------------------------------------


def ward_round() -> None:
    """Print what each rank of each patient does after a second."""
    quiet = contextlib.redirect_stdout(io.StringIO())
    with on_cpus(), quiet, ThreadPool(4) as pool:  # four at a time
        found = pool.map(partial(_in_ranks, error_of_patient), PATIENTS, chunksize=1)
    print("      rank 0        rank 1        rank 2")
    for name, seen in zip(PATIENTS, found, strict=True):
        print(f"{name:<5}", "  ".join(f"{words:<12}" for words in seen).rstrip())
