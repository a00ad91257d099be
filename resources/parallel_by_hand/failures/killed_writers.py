"""Processes that are killed while they write a checkpoint, and what is left of it."""

import random
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import sleep

import torch

from parallel_by_hand.checkpoints.atomic_file import load_checkpoint, save_in_place
from sidebyside.programs.run_program import end_with_parent
from sidebyside.ranks.launch import context_of_ranks


def _state(step: int) -> dict:
    """About 400 KB, all of which hold the number of the step."""
    return {"step": step, "weights": torch.full((100_000,), step)}


def _step_left(path: Path) -> int:
    """The step whose state is there as a whole, else 0."""
    try:
        saved = load_checkpoint(path)
    except (OSError, RuntimeError, EOFError):
        return 0
    return saved["step"] if (saved["weights"] == saved["step"]).all() else 0


def limit_file_size(most: int) -> None:
    """How a writer is killed: the system does it when a file is to have more bytes."""
    import resource  # not on Windows

    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python would go on with an error
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no picture of its memory
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def _write_bytes(save: Callable, path: Path, most: int) -> None:
    """Runs in a process; the system kills it when a file is to have more bytes."""
    end_with_parent()
    limit_file_size(most)
    save(_state(2), path)


def kill_while_writing(save: Callable, kills: int = 6) -> Counter:
    """What is left after kills at 1/6, 2/6 ... of the file, and after none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint.pt")
        save_in_place(_state(1), path)
        size, left = path.stat().st_size, Counter()
        for part in range(1, kills + 1):
            save_in_place(_state(1), path)
            most = part * size // (kills + 1)
            args = save, path, most
            process = context_of_ranks().Process(target=_write_bytes, args=args)
            process.start()
            process.join()
            left[("nothing", "old", "new")[_step_left(path)]] += 1
    return left


def _save_again_and_again(save: Callable, path: Path, first: int, outbox) -> None:
    """Runs in a process until it is killed; `outbox` gets each step that is saved."""
    end_with_parent()
    step = first
    while True:
        save(_state(step), path)
        outbox.send(step)
        step += 1


def kill_at_random_moments(save: Callable, kills: int = 10, seed: int = 0) -> int:
    """After how many of the kills a whole checkpoint was there, no older than the last
    one that had been reported as saved."""
    context, dice, whole, last = context_of_ranks(), random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint.pt")
        for _ in range(kills):
            inbox, outbox = context.Pipe(duplex=False)
            args = save, path, last + 1, outbox
            process = context.Process(target=_save_again_and_again, args=args)
            process.start()
            outbox.close()
            last = inbox.recv()  # the first of this process is there
            sleep(dice.uniform(0, 0.03))
            process.kill()
            process.join()
            while inbox.poll():
                try:
                    last = inbox.recv()
                except EOFError:
                    break
            inbox.close()
            whole += _step_left(path) >= last
            last += 1  # one more may have been written than was reported
    return whole
