"""Data parallel with a sharded optimiser in one small file, with nothing but torch.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/sharding/own_sharded_optimizer.py   (one line)
Look for: one rank or several print the same loss. Each rank holds the state of the
          optimiser for its share of the parameters. Rank 0 writes model and state.
Try:      --save model.pt, and load it in a notebook with torch.load("model.pt").
"""

import argparse
import os
import signal
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import Linear, ReLU, Sequential, functional
from torch.nn.parallel import DistributedDataParallel


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


def train_sharded(device: str, steps: int = 40) -> tuple[dict, float]:
    """The model and the optimiser's whole state (on rank 0), and the last loss."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same data and the same start in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels = (images @ rule).argmax(1)
    layers = Linear(64, 256), ReLU(), Linear(256, 10)
    model = DistributedDataParallel(Sequential(*layers).to(device))
    adam = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.003)
    for batch in torch.randperm(4096).split(96)[:steps]:
        mine = batch[rank::world_size]  # equal shares for 1, 2, 3, 4, 6 and 8 ranks
        x, y = images[mine].to(device), labels[mine].to(device)
        loss = functional.cross_entropy(model(x), y)
        adam.zero_grad()
        loss.backward()
        adam.step()
    mean = loss.detach() / world_size
    dist.all_reduce(mean)
    adam.consolidate_state_dict(to=0)  # gathers all shards: all ranks call it
    state = adam.state_dict() if rank == 0 else {}
    return {"model": model.module.state_dict(), "optimizer": state}, mean.item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=file_name, help="a file for model and state")
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
    trained, loss = train_sharded(device)
    if dist.get_rank() == 0:
        print(f"loss of the last batch {loss:.4f}")
        if save:
            with open(f"{save}.{os.getpid()}", "xb") as file:
                torch.save(trained, file)
            os.replace(file.name, save)  # never half a file
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
