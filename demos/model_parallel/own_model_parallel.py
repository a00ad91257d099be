"""Model parallel training in one small file, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/model_parallel/own_model_parallel.py   (one line)
Look for: one rank or several print the same loss. Each rank holds only its layers.
Try:      --save part, and find part0.pt and part1.pt, one file for each rank's layers.
"""

import argparse
import os
import signal
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch.nn import Linear, ReLU, Sequential, functional


def file_name(text: str) -> str:
    """The file's path, behind a link too, once 2 MB have been written beside it."""
    path = os.path.realpath(text and f"{text}{os.environ.get('RANK', 0)}.pt")
    folder, name = os.path.split(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(0, "not a file")
        with tempfile.NamedTemporaryFile(dir=folder, prefix=name) as trial:
            trial.write(bytes(2_000_000))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    return path


def train(rank: int, ranks: int, device: str, steps: int = 40) -> tuple:
    """This rank's layers, and the loss over the last batch (0 but on the last rank)."""
    torch.manual_seed(0)  # the same data and the same start in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels = (images @ rule).argmax(1)
    layers = [Linear(64, 32), ReLU(), Linear(32, 10)]
    pieces = torch.arange(len(layers)).tensor_split(ranks)  # neighbours stay together
    model = Sequential(*(layers[i] for i in pieces[rank])).to(device)
    trained = list(model.parameters())  # a ReLU alone has none
    sgd = torch.optim.SGD(trained, lr=0.5) if trained else None
    for batch in torch.randperm(4096).split(100)[:steps]:
        entering = images[batch].to(device)
        if rank > 0:
            entering = torch.empty(len(batch), 32, device=device)
            dist.recv(entering, rank - 1)
            entering.requires_grad_()
        leaving = model(entering)
        model.zero_grad()
        if rank < ranks - 1:
            dist.send(leaving.detach(), rank + 1)
            gradient = torch.empty_like(leaving)
            dist.recv(gradient, rank + 1)
            leaving.backward(gradient)
        else:
            leaving = functional.cross_entropy(leaving, labels[batch].to(device))
            leaving.backward()
        if rank > 0:
            dist.send(entering.grad, rank - 1)
        if sgd:
            sgd.step()
    loss = leaving.item() if rank == ranks - 1 else 0.0
    return model, loss


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=file_name, help="how the files' names begin")
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
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks > 3:
        raise SystemExit("this network has three layers: start it on 1 to 3 ranks")
    model, loss = train(rank, ranks, device)
    if rank == ranks - 1:  # the rank that knows the loss
        print(f"loss of the last batch {loss:.4f}")
    if save:
        with open(f"{save}.{os.getpid()}", "xb") as file:
            torch.save(model.state_dict(), file)  # each rank its own layers
        os.replace(file.name, save)  # never half a file
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
