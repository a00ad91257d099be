"""DistributedDataParallel in one small file, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2 demos/ddp/own_ddp.py
Look for: 1, 2, 4 or 8 ranks print the same lines as one_gpu.py, from which this file
          was made: the ranks divide one batch of 64. Only rank 0 saves the model,
          without its wrapper.
Try:      --save model.pt, and load it in a notebook with torch.load("model.pt").
          --workers 2: two loader processes for each rank.
"""

import argparse
import gzip
import os
import signal
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

DIGITS = Path(__file__).parents[2] / "resources" / "data" / "digits.csv.gz"
BATCH, RATE = 64, 0.05  # of all ranks together


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


def digits() -> TensorDataset:
    """1,797 images with their labels; the last 382 are of writers kept for the test."""
    with gzip.open(DIGITS, "rt", encoding="ascii") as file:
        rows = torch.tensor([[float(n) for n in line.split(",")] for line in file])
    return TensorDataset(rows[:, :64] / 16, rows[:, 64].long())


def train(device: str, workers: int, bf16: bool, epochs: int = 3) -> torch.nn.Module:
    """The trained model; prints a line for each epoch."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    data = digits()
    training = Subset(data, range(1415))
    held_out = Subset(data, range(1415 + rank, 1797, ranks))
    sampler = DistributedSampler(training)
    how = {"num_workers": workers, "pin_memory": device == "cuda"}
    share = BATCH // ranks
    loader = DataLoader(training, share, sampler=sampler, drop_last=True, **how)
    tests = DataLoader(held_out, BATCH, **how)
    torch.manual_seed(0)
    model = Sequential(Linear(64, 128), ReLU(), Linear(128, 10)).to(device)
    replica = DistributedDataParallel(model)  # all start as rank 0 does
    sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        sums = torch.zeros(2, device=device)  # of losses, of recognised images
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast(device, torch.bfloat16, enabled=bf16):
                loss = cross_entropy(replica(x), y)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            sums[0] += loss.detach() / len(loader) / ranks
        with torch.no_grad():
            for x, y in tests:
                sums[1] += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        dist.all_reduce(sums)
        loss, right = sums.tolist()
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {loss:.4f}, recognised {right:.0f} of 382")
    return model


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=file_name, help="a file for the trained model")
    parser.add_argument("--workers", choices=("0", "1", "2", "4", "8"), default="0")
    parser.add_argument("--bf16", action="store_true", help="products in 16 bits")
    args = parser.parse_args()
    for name in {"SIGINT", "SIGPIPE"} & set(dir(signal)):  # Ctrl-C, | head
        signal.signal(getattr(signal, name), signal.SIG_DFL)  # end without a traceback

    torch.set_num_threads(1)
    if "RANK" not in os.environ:  # no torchrun, which listens on all networks: alone
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    elif torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    model = train(device, int(args.workers), args.bf16)
    if args.save and dist.get_rank() == 0:
        with open(f"{args.save}.{os.getpid()}", "xb") as file:
            torch.save(model.state_dict(), file)
        os.replace(file.name, args.save)  # never half a file
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
