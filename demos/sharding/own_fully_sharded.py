"""Fully sharded training in one small file, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/sharding/own_fully_sharded.py   (one line)
Look for: one rank or several print the same loss, up to rounding. Each rank keeps its
          share of the parameters, of their gradients and of Adam's averages.
Try:      --checkpoint folder, twice: the second run goes on where the first one ended,
          also with another number of ranks.
"""

import argparse
import glob
import os
import pickle
import signal
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import GELU, Linear, Sequential, functional

DCP = "torch.distributed.checkpoint"
NAMED_BY_SAVE = {
    f"{DCP}.metadata": "Metadata StorageMeta MetadataIndex TensorStorageMetadata "
    "ChunkStorageMetadata BytesStorageMetadata TensorProperties _MEM_FORMAT_ENCODING",
    f"{DCP}.filesystem": "_StorageInfo",
    "torch": "Size float32 int64",
    "torch.serialization": "_get_layout",
    "pathlib": "PosixPath WindowsPath",
    "pathlib._local": "PosixPath WindowsPath",  # Python 3.13
}


class PlainUnpickler(pickle.Unpickler):
    """A pickle can name any code to be run: only what `dcp.save` names is let in."""

    def find_class(self, module: str, name: str) -> object:
        if name not in NAMED_BY_SAVE.get(module, "").split():
            raise pickle.UnpicklingError(f"dcp.save does not write {module}.{name}")
        return super().find_class(module, name)


class PlainReader(dcp.FileSystemReader):
    def read_metadata(self) -> Metadata:
        with open(os.path.join(self.path, ".metadata"), "rb") as file:
            metadata = PlainUnpickler(file).load()
        if not isinstance(metadata, Metadata):
            raise pickle.UnpicklingError("dcp.save writes Metadata")
        return metadata


def own_folder(text: str) -> str:
    """The folder's name, once it is there and 2 MB have been written in it."""
    try:
        os.makedirs(text, exist_ok=True)
        with tempfile.TemporaryFile(dir=text) as trial:
            trial.write(bytes(2_000_000))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    return text


def newest_checkpoint(folder: str | None) -> str | None:
    """Each has a folder of its own. One without .metadata was never finished."""
    pattern = os.path.join(glob.escape(folder or ""), "*", ".metadata")
    found = glob.glob(pattern) if folder else []
    return os.path.dirname(max(found)) if found else None


def train_fully_sharded(folder: str | None, device: str, steps: int = 20) -> float:
    """The last loss of the whole batch; the training's state is saved in `folder`."""
    torch.manual_seed(0)  # the same data and the same start in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels = (images @ rule).argmax(1)
    blocks = [Sequential(Linear(64, 256), GELU(), Linear(256, 64)) for _ in range(3)]
    model = Sequential(*blocks, Linear(64, 10)).to(device)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for unit in (*model, model):
        fully_shard(unit, mesh=mesh)
    adam = torch.optim.Adam(model.parameters(), lr=0.001)
    first, (parts, averages) = torch.tensor(0), get_state_dict(model, adam)
    state = {"model": parts, "optimizer": averages, "step": first}
    if newest := newest_checkpoint(folder):
        dcp.load(state, storage_reader=PlainReader(newest))
        given = {"model_state_dict": parts, "optim_state_dict": averages}
        set_state_dict(model, adam, **given)
    done, rank, ranks = int(state["step"]), dist.get_rank(), dist.get_world_size()
    for step in range(done, done + steps):
        batch = torch.arange(step * 96, step * 96 + 96) % 4096
        mine = batch[rank::ranks]  # each rank: its share of the batch
        loss = functional.cross_entropy(
            model(images[mine].to(device)), labels[mine].to(device)
        )
        adam.zero_grad()
        loss.backward()
        adam.step()
    if folder:
        parts, averages = get_state_dict(model, adam)
        after = torch.tensor(done + steps)
        state = {"model": parts, "optimizer": averages, "step": after}
        dcp.save(state, checkpoint_id=os.path.join(folder, f"{done + steps:08}"))
    mean = loss.detach() / ranks
    dist.all_reduce(mean)
    return mean.item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--checkpoint", type=own_folder, help="a folder, made if it is not there")
    folder = parser.parse_args().checkpoint
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"  # dcp.load loads pickles, too
    try:
        if newest := newest_checkpoint(folder):
            for part in PlainReader(newest).read_metadata().storage_data.values():
                size = os.path.getsize(os.path.join(newest, part.relative_path))
                if size < part.offset + part.length:
                    raise EOFError
    except Exception:
        parser.error(f"argument --checkpoint: {newest} is not of this program")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    torch.set_num_threads(1)

    if "RANK" not in os.environ:  # no torchrun, which listens on all networks: alone
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    elif torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    loss = train_fully_sharded(folder, device)
    if dist.get_rank() == 0:
        print(f"loss of the last batch {loss:.4f}")
    dist.destroy_process_group()
    time.sleep(0.2)  # FSDP2's caches keep the group: its threads finish meanwhile


if __name__ == "__main__":
    main()
