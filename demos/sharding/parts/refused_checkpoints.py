"""Read a sharded checkpoint, or say in one sentence why not."""

from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader


class Refused(ValueError):
    """The checkpoint cannot be used; nothing has been loaded."""


def load_or_refuse(folder: str, state: dict) -> None:
    """Fill the tensors of `state` from the checkpoint in `folder`, after a look at it.

    Every rank looks at the same files, so all refuse or none does. The metadata lists
    each tensor's shape, and where each piece lies in which file. It is written last:
    without it, the checkpoint was never finished. A file in which bytes have changed
    is not noticed: that would take a checksum.
    """
    if not Path(folder, ".metadata").exists():
        raise Refused(f"{folder} holds no finished checkpoint: it has no .metadata")
    metadata = FileSystemReader(folder).read_metadata()
    for info in metadata.storage_data.values():
        path = Path(folder, info.relative_path)
        size = path.stat().st_size if path.exists() else 0
        if size < info.offset + info.length:
            raise Refused(f"{path.name} is torn: it ends before its tensors do")
    shapes = {
        name: tuple(entry.size)
        for name, entry in metadata.state_dict_metadata.items()
        if hasattr(entry, "size")
    }
    for name, tensor in _tensors_of_checkpoint(state).items():
        if shapes.get(name) != tuple(tensor.shape):
            found = shapes.get(name, "nothing")
            raise Refused(
                f"this is another model's checkpoint: {name} has shape "
                f"{tuple(tensor.shape)} here and {found} there"
            )
    dcp.load(state, checkpoint_id=folder)


def _tensors_of_checkpoint(state: dict, prefix: str = "") -> dict[str, torch.Tensor]:
    """All tensors in nested dictionaries, by their names joined with dots."""
    found = {}
    for key, value in state.items():
        if isinstance(value, dict):
            found |= _tensors_of_checkpoint(value, f"{prefix}{key}.")
        elif isinstance(value, torch.Tensor):
            found[f"{prefix}{key}"] = value
    return found
