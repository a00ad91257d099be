"""Data parallel training in one small file, with nothing but torch: a start of yours.

Run:      torchrun --nproc-per-node 2 demos/data_parallel/own_data_parallel.py
Look for: one rank or several print the same loss. Only rank 0 writes the file.
Try:      --save model.pt, and load it in a notebook with torch.load("model.pt").
"""

import argparse
import os
import signal

import torch
import torch.distributed as dist
from torch.nn import Linear, ReLU, Sequential, functional


def file_name(text: str) -> str:
    if not os.path.basename(text) or not os.path.isdir(os.path.dirname(text) or "."):
        raise argparse.ArgumentTypeError("must be a file in a folder that exists")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=file_name, help="a file for the trained model")
    save = parser.parse_args().save

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    if "RANK" in os.environ:  # torchrun has set what the ranks need to meet
        on_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
        dist.init_process_group("nccl" if on_gpus else "gloo")
    else:  # started alone: a group of one
        on_gpus, store = torch.cuda.is_available(), dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = "cuda:" + os.environ.get("LOCAL_RANK", "0") if on_gpus else "cpu"
    torch.set_num_threads(1)

    torch.manual_seed(0)  # the same data and the same start in every rank
    images, rule = torch.randn(4096, 64), torch.randn(64, 10)
    labels = (images @ rule).argmax(1)
    model = Sequential(Linear(64, 32), ReLU(), Linear(32, 10)).to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=0.5)

    for step, batch in enumerate(torch.randperm(4096).split(100)):
        mine = batch.tensor_split(ranks)[rank]
        x, y = images[mine].to(device), labels[mine].to(device)
        loss = functional.cross_entropy(model(x), y, reduction="sum") / len(batch)
        sgd.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        sgd.step()

    total = loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(f"step {step + 1}, loss {total.item():.4f}")
        if save:
            torch.save(model.state_dict(), save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
