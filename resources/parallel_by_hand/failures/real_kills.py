"""A process that computes and saves, killed by an exponential clock, goes on."""

import os
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from parallel_by_hand.failures.checkpoint_interval import (
    Machine,
    progress_at_last_failure,
)
from sidebyside import span
from sidebyside.programs.run_program import end_with_parent
from sidebyside.ranks.launch import context_of_ranks
from sidebyside.timeline.spans import label_process


class SurvivedKills(NamedTuple):
    """The share of time that counted despite real kills, and what was predicted."""

    goodput: float  # computing that was saved, as a share of all the time
    predicted: float  # what the simulated clock says for the same failures


def _compute_and_save(path: Path, every: float, save: float, inbox) -> None:
    """Runs in a process until it is killed: naps for computing, naps for saving."""
    end_with_parent()
    label_process("training")
    try:
        moment = inbox.recv()
    except EOFError:  # Ctrl-C came first
        return
    sleep(max(0, moment - monotonic()))
    done = int(path.read_text()) if path.exists() else 0
    while True:
        with span("compute"):
            sleep(every)
        with span("save"):
            sleep(save)
            done += 1
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text(str(done))
            os.replace(unfinished, path)


class _SpareProcesses:
    """Processes that stand by, so that starting one takes none of the clock's time."""

    def __init__(self, number: int, *args):
        context = context_of_ranks()
        self.standing_by = []
        for _ in range(number):
            inbox, outbox = context.Pipe(duplex=False)
            process = context.Process(
                target=_compute_and_save, args=(*args, inbox), daemon=True
            )
            process.start()
            self.standing_by.append((process, inbox, outbox))
        self.begun = []

    def begin(self, moment: float) -> int:
        """Let one of them go on, at this moment; its process id."""
        self.begun.append(self.standing_by.pop())
        process, _, outbox = self.begun[-1]
        outbox.send(moment)
        return process.pid

    def end(self) -> None:
        for process, inbox, outbox in self.begun + self.standing_by:
            process.kill()
            process.join()
            inbox.close()
            outbox.close()


def survive_kills(
    every: float, machine: Machine, failures: Sequence[float]
) -> SurvivedKills:
    """Train until the last of the `failures`, in seconds, and the restart after it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rounds")
        spares = _SpareProcesses(len(failures), path, every, machine.save)
        try:
            began = monotonic() + 0.1
            ready = began
            for failure in failures:
                pid = spares.begin(ready)
                sleep(max(0, began + failure - monotonic()))
                os.kill(pid, signal.SIGKILL)
                ready = monotonic() + machine.restart
        finally:
            spares.end()
        rounds = int(path.read_text()) if path.exists() else 0
    seconds = failures[-1] + machine.restart
    clock = progress_at_last_failure(every, machine.save, machine.restart, failures)
    return SurvivedKills(rounds * every / seconds, clock / seconds)
