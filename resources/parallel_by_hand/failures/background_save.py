"""Write a checkpoint while training goes on: what has to wait, and what must not."""

import copy
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import perf_counter, sleep

import torch

from parallel_by_hand.checkpoints.atomic_file import save_atomically
from sidebyside import span


def _call_thread_writer() -> None:
    """Its lane in a timeline has this name."""
    threading.current_thread().name = "writer"


class BackgroundSaver:
    """Copies at once, writes in a thread of its own, one checkpoint after the other."""

    def __init__(self, write: Callable = save_atomically):
        self.write, self.pool = (
            write,
            ThreadPoolExecutor(1, initializer=_call_thread_writer),
        )
        self.written: Future | None = None

    def save(self, state: dict, path: Path) -> None:
        """Returns when `state` may change again; the file is not there yet."""
        self.wait()  # at most one is under way: else copies pile up
        with span("copy"):
            copied = copy.deepcopy(state)
        self.written = self.pool.submit(self.write, copied, path)

    def wait(self) -> None:
        """Returns when the last checkpoint is on the disk; raises what went wrong."""
        if self.written is not None:
            with span("wait"):
                self.written.result()

    def __enter__(self) -> "BackgroundSaver":
        return self

    def __exit__(self, *exception) -> None:
        self.wait()
        self.pool.shutdown()


def write_to_slow_disk(state: dict, path: Path, seconds: float = 0.15) -> None:
    """What a save in the background does: write, which takes a while."""
    with span("write"):
        sleep(seconds)
        save_atomically(state, path)


def train_beside_writer(folder: Path, background: bool, steps: int = 9) -> None:
    """Steps that sleep for 40 ms; a checkpoint after every third, for 150 ms."""
    state = {"weights": torch.zeros(1000)}
    with BackgroundSaver(write_to_slow_disk) as saver:
        for step in range(1, steps + 1):
            with span(f"step {step}"):
                sleep(0.04)
                state["weights"] += 1
            if step % 3 == 0:
                path = folder / f"{step:08}.pt"
                if background:
                    saver.save(state, path)
                else:
                    write_to_slow_disk(state, path)


def steps_in_file(folder: Path, copying: bool) -> set[int]:
    """The steps of whose numbers a checkpoint is made that is written in step 6."""
    weights = {"first": torch.full((3,), 5), "second": torch.full((3,), 5)}
    half_written, stepped = Event(), Event()

    def write(state: dict, path: Path) -> None:
        on_disk = {"first": state["first"].clone()}
        half_written.set()
        stepped.wait()
        on_disk["second"] = state["second"].clone()
        save_atomically(on_disk, path)

    path = folder / "weights.pt"
    with ThreadPoolExecutor(1) as pool:
        given = copy.deepcopy(weights) if copying else weights
        written = pool.submit(write, given, path)
        half_written.wait()
        for weight in weights.values():
            weight += 1  # step 6, in place, as optimisers do
        stepped.set()
        written.result()
    return {int(n) for weight in torch.load(path).values() for n in weight}


def measure_pauses(folder: Path, megabytes: int = 64, rounds: int = 5) -> dict:
    """Seconds that training stands still for a save, in the background or not."""
    state = {"weights": torch.ones(megabytes * 250_000)}
    path, pauses = folder / "large.pt", {"in line": [], "in the background": []}
    with BackgroundSaver() as saver:
        for _ in range(rounds):
            began = perf_counter()
            save_atomically(state, path)
            pauses["in line"].append(perf_counter() - began)
            began = perf_counter()
            saver.save(state, path)
            pauses["in the background"].append(perf_counter() - began)
            saver.wait()
    os.unlink(path)
    return {way: sorted(seconds)[rounds // 2] for way, seconds in pauses.items()}
