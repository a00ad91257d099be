"""Sharded training over data x tensor in one file, with torch alone, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 4
              demos/sharding/own_2d_training.py --tensor 2   (one line)
Look for: one rank, two or four print nearly the same loss; with --float32, the same up
          to rounding. Gathers are in bfloat16, sums and the kept shards in float32.
Try:      --checkpoint folder, twice: the second run goes on where the first one ended,
          with any number of ranks. --profile folder writes each rank's trace of two
          steps, for ui.perfetto.dev. --compile compiles the blocks.
"""

import argparse
import glob
import os
import pickle
import shutil
import signal
import tempfile
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,
)
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.profiler import profile, schedule

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


class Block(nn.Module):
    def __init__(self, width: int = 64):
        super().__init__()
        self.norm, self.wide = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(functional.gelu(self.wide(self.norm(x))))


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(3)), nn.Linear(64, 10))


def build_model(mesh, policy: MixedPrecisionPolicy, compiled: bool) -> nn.Sequential:
    """Split, recompute, compile, shard, and only then make memory and load weights."""
    with torch.device("meta"):
        model = make_model()
    for at, block in enumerate(model[:-1]):
        if mesh["tensor"].size() > 1:
            plan = {"wide": ColwiseParallel(), "narrow": RowwiseParallel()}
            parallelize_module(block, mesh["tensor"], plan)
        model[at] = block = checkpoint_wrapper(block)
        if compiled:
            block.compile()
        fully_shard(block, mesh=mesh["data"], mp_policy=policy)
    fully_shard(model, mesh=mesh["data"], mp_policy=policy)
    model.to_empty(device=mesh.device_type)
    weights = make_model().state_dict() if dist.get_rank() == 0 else {}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, weights, options=options)
    return model


def clip(model: nn.Module, longest: float) -> None:
    """Layer norms lie on one dimension, MLPs on two: gradients have a norm on each."""
    meshes: dict = {}
    for parameter in model.parameters():
        meshes.setdefault(parameter.device_mesh, []).append(parameter)
    norms = [
        nn.utils.get_total_norm([p.grad for p in group]).full_tensor()
        for group in meshes.values()
    ]
    for group in meshes.values():
        nn.utils.clip_grads_with_norm_(group, longest, torch.stack(norms).norm())


def state_of(model: nn.Module, adam: torch.optim.Optimizer, step: int) -> dict:
    parts, averages = get_state_dict(model, adam)
    return {"model": parts, "optimizer": averages, "step": torch.tensor(step)}


def train(model, adam, mesh, folder: str | None, trace=nullcontext) -> float:
    """20 steps of two micro-batches each; the mean loss of the last step's batch."""
    torch.manual_seed(0)  # the same data in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels, data = (images @ rule).argmax(1), mesh["data"]
    state = state_of(model, adam, 0)
    if newest := newest_checkpoint(folder):
        dcp.load(state, storage_reader=PlainReader(newest))
        given = state["model"], state["optimizer"]
        names = "model_state_dict", "optim_state_dict"
        set_state_dict(model, adam, **dict(zip(names, given, strict=True)))
    done, writers = int(state["step"]), dist.new_group(backend="gloo")
    with trace() as profiler:
        for step in range(done, done + 20):
            batch = torch.arange(step * 96, step * 96 + 96) % 4096
            total, mine = 0.0, batch[data.get_local_rank() :: data.size()]
            for part, rows in enumerate(mine.chunk(2)):
                model.set_requires_gradient_sync(part == 1)  # sent once
                scores = model(images[rows].to(mesh.device_type)).float()
                expected = labels[rows].to(mesh.device_type)
                loss = functional.cross_entropy(scores, expected) / 2
                loss.backward()
                total = total + loss.detach()
            clip(model, 1.0)
            adam.step()
            adam.zero_grad()
            if profiler:
                profiler.step()
    if folder:
        where = {"checkpoint_id": os.path.join(folder, f"{done + 20:08}")}
        after = state_of(model, adam, done + 20)
        dcp.async_save(after, process_group=writers, **where).result()
    dist.all_reduce(total, group=data.get_group())
    return total.item() / data.size()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--tensor", choices=("1", "2", "4"), default="1")
    add("--checkpoint", type=own_folder, help="a folder, made if it is not there")
    add("--profile", type=own_folder, help="a folder for the traces")
    add("--float32", action="store_true", help="gather in float32")
    add("--compile", action="store_true")
    args = parser.parse_args()
    ranks, tensor = int(os.environ.get("WORLD_SIZE", 1)), int(args.tensor)
    if ranks % tensor:
        parser.error(f"argument --tensor: {ranks} ranks are no multiple of {tensor}")
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"  # dcp.load loads pickles, too
    try:
        if newest := newest_checkpoint(args.checkpoint):
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
    first = dist.get_rank() == 0
    has_compiler = bool(shutil.which("g++") or shutil.which("clang++"))
    if args.compile and not has_compiler and first:
        print("no C++ compiler here: nothing is compiled")
    sizes = ranks // tensor, tensor
    mesh = init_device_mesh(device, sizes, mesh_dim_names=("data", "tensor"))
    mesh._flatten()  # a norm over both dimensions takes one all-reduce
    dtype = None if args.float32 else torch.bfloat16
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    model = build_model(mesh, policy, args.compile and has_compiler)
    adam = torch.optim.Adam(model.parameters(), lr=0.001, foreach=False)

    def write(profiler) -> None:
        name = f"rank{dist.get_rank()}.json"
        profiler.export_chrome_trace(os.path.join(args.profile, name))

    def trace():
        steps = schedule(wait=1, warmup=1, active=2, repeat=1)
        return profile(schedule=steps, on_trace_ready=write)

    watched = trace if args.profile else nullcontext
    loss = train(model, adam, mesh, args.checkpoint, watched)
    if first:
        print(f"loss of the last batch {loss:.3f}")
    dist.destroy_process_group()
    time.sleep(0.2)  # FSDP2's caches keep the group: its threads finish meanwhile


if __name__ == "__main__":
    main()
