"""Local SGD in one small file, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/decentralised/own_local_sgd.py --every 8   (one line)
Look for: two ranks, ten meetings in 75 steps, and one model: the last, short round has
          a meeting too.
Try:      --every 1 and --every 75: 75 meetings, and one. And --save model.pt.
"""

import argparse
import os
import signal
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch.nn import Linear, ReLU, Sequential, functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters


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


def steps_between(text: str) -> int:
    if len(text) > 4 or not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 1000")
    return int(text)


def train(rank: int, ranks: int, device: str, every: int, steps: int = 75) -> tuple:
    """The trained model and the number of meetings; the same in all ranks."""
    torch.manual_seed(0)  # the same data and the same start in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels = (images @ rule).argmax(1)
    model = Sequential(Linear(64, 32), ReLU(), Linear(32, 10)).to(device)
    sgd, meetings = torch.optim.SGD(model.parameters(), lr=0.3), 0
    my_images, my_labels = images[rank::ranks], labels[rank::ranks]
    dice = torch.Generator().manual_seed(rank)
    for step in range(1, steps + 1):
        mine = torch.randint(len(my_images), (50,), generator=dice)
        x, y = my_images[mine].to(device), my_labels[mine].to(device)
        sgd.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        sgd.step()
        if step % every == 0 or step == steps:
            flat = parameters_to_vector(model.parameters()).detach()
            dist.all_reduce(flat)
            vector_to_parameters(flat / ranks, model.parameters())
            meetings += 1
    return model, meetings


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=steps_between, default=8)
    parser.add_argument("--save", type=file_name, help="a file for the trained model")
    args = parser.parse_args()
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
    model, meetings = train(rank, ranks, device, args.every)
    low, high = (parameters_to_vector(model.parameters()).detach() for _ in range(2))
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    if rank == 0:
        group = f"{ranks} ranks" if ranks > 1 else "1 rank"
        print(f"{group}, {meetings} meetings, one model: {torch.equal(low, high)}")
        if args.save:
            with open(f"{args.save}.{os.getpid()}", "xb") as file:
                torch.save(model.state_dict(), file)
            os.replace(file.name, args.save)  # never half a file
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
