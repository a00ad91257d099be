"""A checkpoint that is whole at any moment, whoever is killed meanwhile."""

import os
from pathlib import Path

import torch


def save_atomically(state: dict, path: Path) -> None:
    """Write `state` so that `path` always holds a whole checkpoint, old or new.

    All bytes go to a file beside it, and on the disk, before that file gets the name;
    to give a file another name is one step of the file system. A failure leaves the
    old checkpoint, and an unfinished file that the next call removes. After a power
    cut the old or the new name may be found, unless the folder is synchronised too.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)  # a link there would be written through
    with open(unfinished, "xb") as file:
        torch.save(state, file)
        file.flush()  # from Python to the system
        os.fsync(file.fileno())  # from the system to the disk
    os.replace(unfinished, path)


def save_in_place(state: dict, path: Path) -> None:
    """A mistake that people make: at the first byte the old checkpoint is gone."""
    torch.save(state, path)


def load_checkpoint(path: Path) -> dict:
    """What was saved, on the CPU. An error if the file is not whole."""
    return torch.load(path, map_location="cpu", weights_only=True)
