"""A vocabulary split over ranks in one file, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/tensor_parallel/own_vocabulary_parallel.py   (one line)
Look for: one rank or several print the same loss. Each rank holds its share of the
          words, in the embedding and in the last layer. No rank ever holds the logits
          of all words. Rank 0 writes the whole matrices to the file.
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
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import Embedding, Linear, Sequential, Tanh, functional


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


def train_split(mesh, device: str, steps: int = 40) -> tuple[dict, float]:
    """The trained matrices, whole again, and the last loss; the same on all ranks."""
    torch.manual_seed(0)  # the same data and the same start in every rank
    text = torch.randint(1000, (4096,))
    following = (7 * text + 3) % 1000  # the rule to learn: which word follows
    model = Sequential(Embedding(1000, 64), Tanh(), Linear(64, 1000)).to(device)
    words = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    plan = {"0": RowwiseParallel(input_layouts=Replicate()), "2": words}
    parallelize_module(model, mesh, plan)
    sgd = torch.optim.SGD(model.parameters(), lr=10, foreach=False)
    for batch in torch.randperm(4096).split(100)[:steps]:  # all ranks: the same batch
        x, y = text[batch].to(device), following[batch].to(device)
        with loss_parallel():  # for backward too
            loss = functional.cross_entropy(model(x), y)
            sgd.zero_grad()
            loss.backward()
        sgd.step()
    whole = {name: p.full_tensor() for name, p in model.state_dict().items()}
    return whole, loss.full_tensor().item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=file_name, help="a file for the trained model")
    save = parser.parse_args().save
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
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    matrices, loss = train_split(mesh, device)
    if dist.get_rank() == 0:
        print(f"loss of the last batch {loss:.3f}")
        if save:
            with open(f"{save}.{os.getpid()}", "xb") as file:
                torch.save(matrices, file)
            os.replace(file.name, save)  # never half a file
    dist.destroy_process_group()
    time.sleep(0.2)  # DTensor's caches keep the group: its threads finish meanwhile


if __name__ == "__main__":
    main()
