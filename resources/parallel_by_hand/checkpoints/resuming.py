"""Whether a program can go on from a checkpoint: asked before anything starts."""

import os
import zipfile
from pathlib import Path

import torch

from sidebyside.course.single_use import hold_for_single_use


def why_not_resume(
    path: Path, like: dict, settings: dict, counter: str, wanted: int
) -> str:
    """What keeps a run from going on where the checkpoint stopped, or nothing.

    `like` is a state as the program saves it: whatever it has, the checkpoint has with
    the same type, and a tensor with the same shape and dtype. `settings` must be equal.
    `counter` names what was counted, such as "epoch"; `wanted` of them are asked for.
    """
    first = os.environ.get("RANK", "0") == "0"  # under torchrun every rank is here
    if first and (problem := hold_for_single_use(path)):
        return problem
    if not path.exists():
        return ""
    try:
        spoiled = zipfile.ZipFile(path).testzip()  # its checksums
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:
        spoiled, saved = True, {}
    if spoiled or not _has_all_of(like, saved) or saved[counter] < 1:
        return f"{path} is not a checkpoint of this program, or is spoiled"
    if not _is_finite(saved):
        return f"{path} holds numbers that are not finite: its training has diverged"
    for name, value in settings.items():
        if saved[name] != value:
            return f"{path} was trained with --{name} {saved[name]}"
    if saved[counter] >= wanted:
        return f"{path} has {saved[counter]} {counter}s: ask for more --{counter}s"
    return ""


def _has_all_of(like: object, saved: object) -> bool:
    if isinstance(like, dict) and isinstance(saved, dict):
        return all(
            key in saved and _has_all_of(value, saved[key])
            for key, value in like.items()
        )
    if isinstance(like, torch.Tensor) and isinstance(saved, torch.Tensor):
        return (like.shape, like.dtype) == (saved.shape, saved.dtype)
    return type(like) is type(saved)


def _is_finite(saved: object) -> bool:
    if isinstance(saved, dict):
        return all(map(_is_finite, saved.values()))
    return not isinstance(saved, torch.Tensor) or bool(saved.isfinite().all())
