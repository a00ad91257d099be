"""Split images by space in one small file, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/model_parallel/own_halo_exchange.py   (one line)
Look for: one rank or several print the same loss. Each rank holds a strip of the image.
Try:      --save model.pt, and find it there: all ranks have the same weights.
"""

import argparse
import os
import signal
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch import nn
from torch.nn import functional as F


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


def swap_edges(top: torch.Tensor, bottom: torch.Tensor) -> tuple:
    """`top` goes to the rank above, `bottom` below: what both send here, or zeros."""
    rank, messages, arrived = dist.get_rank(), [], []
    for edge, other in (top, rank - 1), (bottom, rank + 1):
        edge, room = edge.contiguous(), torch.zeros_like(edge).contiguous()
        arrived.append(room)
        if 0 <= other < dist.get_world_size():
            messages.append(dist.P2POp(dist.isend, edge, other))
            messages.append(dist.P2POp(dist.irecv, room, other))
    for work in dist.batch_isend_irecv(messages) if messages else []:
        work.wait()
    return tuple(arrived)


class WithHalo(torch.autograd.Function):
    """A strip with a row of each neighbour; their gradients go home in backward."""

    @staticmethod
    def forward(ctx, strip):
        above, below = swap_edges(strip[:, :, :1], strip[:, :, -1:])
        return torch.cat([above, strip, below], dim=2)

    @staticmethod
    def backward(ctx, gradient):
        above, below = swap_edges(gradient[:, :, :1], gradient[:, :, -1:])
        own = gradient[:, :, 1:-1].clone()
        own[:, :, :1] += above
        own[:, :, -1:] += below
        return own


def train(rank: int, ranks: int, device: str, steps: int = 20) -> tuple:
    """A network that learns to blur: the model, and the loss of the last batch."""
    torch.manual_seed(0)  # the same data and the same start in every rank
    pair = nn.Conv2d(1, 8, 3, padding=(0, 1)), nn.Conv2d(8, 1, 3, padding=(0, 1))
    model = nn.ModuleList(pair).to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        images = torch.rand(16, 1, 12, 12)
        wanted = F.avg_pool2d(images, 3, stride=1, padding=1)
        strip, target = (
            whole.chunk(ranks, 2)[rank].to(device) for whole in (images, wanted)
        )
        hidden = F.relu(model[0](WithHalo.apply(strip)))
        output = model[1](WithHalo.apply(hidden))
        loss = (output - target).square().sum() / images.numel()  # this strip's part
        sgd.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # the sum over all strips
        sgd.step()
    total = loss.detach()
    dist.all_reduce(total)
    return model, total.item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--save", type=file_name, help="a file for the model")
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
    if 12 % ranks:
        raise SystemExit("12 rows: start it on 1, 2, 3, 4, 6 or 12 ranks")
    model, loss = train(rank, ranks, device)
    if rank == 0:
        print(f"loss of the last batch {loss:.6f}")
        if save:
            with open(f"{save}.{os.getpid()}", "xb") as file:
                torch.save(model.state_dict(), file)
            os.replace(file.name, save)  # never half a file
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
