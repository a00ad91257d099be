"""Data x tensor parallel in one small file, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 4
              demos/capstone/own_two_dimensions.py --tensor 2   (one line)
Look for: one rank, two or four print the same loss. The ranks of a tensor group hold
          parts of one model and see the same rows; those of a data group hold the same
          part, see other rows, and average their gradients.
Try:      --save model.pt, and load it in a notebook with torch.load("model.pt").
"""

import argparse
import os
import signal
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import GELU, Linear, Sequential, functional


def file_name(text: str) -> str:
    """The file's path, behind a link too, once 2 MB have been written beside it."""
    path = os.path.realpath(text)
    folder, name = os.path.split(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(0, "not a file")
        with tempfile.NamedTemporaryFile(dir=folder, prefix=name) as trial:
            trial.write(bytes(2_000_000))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    return path


def train_on_mesh(mesh, device: str, steps: int = 40) -> tuple[dict, float]:
    """The trained matrices, whole again, and the last loss; the same on all ranks."""
    torch.manual_seed(0)  # the same data and the same start in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels = (images @ rule).argmax(1)
    model = Sequential(Linear(64, 256), GELU(), Linear(256, 10)).to(device)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(model, mesh["tensor"], plan)
    sgd = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
    data = mesh["data"]
    for batch in torch.randperm(4096).split(128)[:steps]:
        mine = batch.chunk(data.size())[data.get_local_rank()]  # rows by data rank
        loss = functional.cross_entropy(
            model(images[mine].to(device)), labels[mine].to(device)
        )
        sgd.zero_grad()
        loss.backward()
        for parameter in model.parameters():  # this rank's part of it
            gradient = parameter.grad.to_local().div_(data.size())
            dist.all_reduce(gradient, group=data.get_group())
        sgd.step()
    dist.all_reduce(loss.detach_(), group=data.get_group())
    whole = {name: p.full_tensor() for name, p in model.state_dict().items()}
    return whole, loss.item() / data.size()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tensor", choices=("1", "2", "4"), default="1")
    parser.add_argument("--save", type=file_name, help="a file for the trained model")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    ranks, tensor = int(os.environ.get("WORLD_SIZE", 1)), int(args.tensor)
    if ranks % tensor:
        parser.error(f"argument --tensor: {ranks} ranks are no multiple of {tensor}")
    torch.set_num_threads(1)

    if "RANK" not in os.environ:  # no torchrun, which listens on all networks: alone
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    elif torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    sizes = ranks // tensor, tensor
    mesh = init_device_mesh(device, sizes, mesh_dim_names=("data", "tensor"))
    matrices, loss = train_on_mesh(mesh, device)
    if dist.get_rank() == 0:
        print(f"loss of the last batch {loss:.4f}")
        if args.save:
            with open(f"{args.save}.{os.getpid()}", "xb") as file:
                torch.save(matrices, file)
            os.replace(file.name, args.save)  # never half a file
    dist.destroy_process_group()
    time.sleep(0.2)  # DTensor's caches keep the group: its threads finish meanwhile


if __name__ == "__main__":
    main()
