"""Read a sharded checkpoint, or say in one sentence why not."""

import io
import pickle
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

DCP = "torch.distributed.checkpoint"
NAMED_BY_SAVE = {
    f"{DCP}.metadata": "Metadata StorageMeta MetadataIndex TensorStorageMetadata "
    "ChunkStorageMetadata BytesStorageMetadata TensorProperties _MEM_FORMAT_ENCODING",
    f"{DCP}.filesystem": "_StorageInfo",
    "torch": "Size float64 float32 bfloat16 float16 int64",
    "torch.serialization": "_get_layout",
    "pathlib": "PosixPath WindowsPath",
    "pathlib._local": "PosixPath WindowsPath",  # Python 3.13
}


class Refused(ValueError):
    """The sharded checkpoint cannot be used; nothing has been loaded."""


class PlainUnpickler(pickle.Unpickler):
    """A checkpoint's pickle can name any code: only what `dcp.save` names is let in."""

    def find_class(self, module: str, name: str) -> object:
        if name not in NAMED_BY_SAVE.get(module, "").split():
            raise Refused(f".metadata names {module}.{name}, which dcp.save does not")
        return super().find_class(module, name)


class PlainReader(dcp.FileSystemReader):
    """Reads a checkpoint's `.metadata` without running anything that it may name."""

    def read_metadata(self) -> Metadata:
        with open(Path(self.path, ".metadata"), "rb") as file:
            metadata = PlainUnpickler(file).load()
        if not isinstance(metadata, Metadata):
            raise Refused(".metadata holds something else than dcp.save writes")
        return metadata


class _PlainPlanner(dcp.DefaultLoadPlanner):
    """What is no tensor is a pickle as well; torch loads it without `weights_only`."""

    def load_bytes(self, read_item, value: io.BytesIO) -> None:
        torch.load(value, weights_only=True)  # an error where code is named
        value.seek(0)
        super().load_bytes(read_item, value)


def load_or_refuse(folder: str, state: dict) -> None:
    """Fill the tensors of `state` from the checkpoint in `folder`, or refuse it.

    Every rank looks at the same files, so all refuse or none does. The metadata lists
    each tensor's shape, and where each piece lies in which file. It is written last:
    without it, the checkpoint was never finished. A file in which bytes have changed
    is not noticed: that would take a checksum. Nothing is run that a file may name.
    """
    if not Path(folder, ".metadata").exists():
        raise Refused(f"{folder} holds no finished checkpoint: it has no .metadata")
    metadata = PlainReader(folder).read_metadata()
    for info in metadata.storage_data.values():
        path = Path(folder, info.relative_path)
        size = path.stat().st_size if path.exists() else 0
        if size < info.offset + info.length:
            raise Refused(f"{path.name} is torn: it ends before its tensors do")
    shapes = {
        name: tuple(entry.size)
        for name, entry in metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    for name, tensor in _tensors(state).items():
        if shapes.get(name) != tuple(tensor.shape):
            found = shapes.get(name, "nothing")
            raise Refused(
                f"this is another model's checkpoint: {name} has shape "
                f"{tuple(tensor.shape)} here and {found} there"
            )
    dcp.load(state, storage_reader=PlainReader(folder), planner=_PlainPlanner())


def _tensors(state: dict, prefix: str = "") -> dict[str, torch.Tensor]:
    """All tensors in nested dictionaries, by their names joined with dots."""
    found = {}
    for key, value in state.items():
        if isinstance(value, dict):
            found |= _tensors(value, f"{prefix}{key}.")
        elif isinstance(value, torch.Tensor):
            found[f"{prefix}{key}"] = value
    return found
