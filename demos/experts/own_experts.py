"""Experts on several ranks in one file, with nothing but torch, to start from.

Run:      torchrun --local-addr 127.0.0.1 --nproc-per-node 2
              demos/experts/own_experts.py   (one line)
Look for: one rank or several print the same loss. Each rank has its share of the
          experts and of the batch; tokens travel to their experts and home. Rank 0
          writes the whole model to the file.
Try:      --save model.pt, and load it in a notebook with torch.load("model.pt").
"""

import argparse
import os
import signal
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group, or it keeps hold of it
from torch import nn
from torch.nn import functional

EXPERTS, WIDTH = 8, 64  # the ranks must divide the experts


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


class SendRows(torch.autograd.Function):
    """Rows to the ranks, `to_each` to each; backward, their gradients come home."""

    @staticmethod
    def forward(ctx, rows, to_each, from_each):
        ctx.home = from_each, to_each
        room = rows.new_empty(sum(from_each), rows.shape[1])
        dist.all_to_all_single(room, rows, from_each, to_each)
        return room

    @staticmethod
    def backward(ctx, gradient):
        return SendRows.apply(gradient.contiguous(), *ctx.home), None, None


class Experts(nn.Module):
    """x + the answer of one of all experts, of which this rank has its share."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.wide = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH) / 8)
        self.narrow = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) / 11)

    def keep_own_experts(self) -> None:
        ranks, rank = dist.get_world_size(), dist.get_rank()
        for part in (self.wide, self.narrow):
            part.data = part.data.chunk(ranks)[rank].clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, chosen = self.router(x).softmax(1).max(1)
        order = chosen.argsort(stable=True)  # to the first expert's tokens first
        to_each = chosen.bincount(minlength=EXPERTS).view(dist.get_world_size(), -1)
        arriving = torch.empty_like(to_each)
        dist.all_to_all_single(arriving, to_each)
        out, back = to_each.sum(1).tolist(), arriving.sum(1).tolist()
        rows = SendRows.apply(x[order], out, back)
        own = torch.arange(len(self.wide), device=x.device).repeat(len(arriving))
        by_expert = own.repeat_interleave(arriving.flatten()).argsort(stable=True)
        parts = rows[by_expert].split(arriving.sum(0).tolist())
        own_experts = zip(parts, self.wide, self.narrow, strict=True)
        answers = torch.cat([(part @ w).relu() @ n for part, w, n in own_experts])
        answers = answers[by_expert.argsort()]  # by sender, as they came
        rows = SendRows.apply(answers, back, out)
        return x + gate[:, None] * rows[order.argsort()]


def average_gradients(model: nn.Module) -> None:
    """Shared gradients over all ranks; the experts have seen all tokens already."""
    for name, parameter in model.named_parameters():
        if not name.endswith(("wide", "narrow")):
            dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def train_experts(device: str, steps: int = 40) -> tuple[dict, float]:
    """The trained model, whole again, and the last loss; the same on all ranks."""
    torch.manual_seed(0)  # the same data and the same start in every rank
    text = torch.randint(1000, (4000,))
    following = (7 * text + 3) % 1000  # the rule to learn: which word follows
    experts = Experts()
    model = nn.Sequential(nn.Embedding(1000, WIDTH), experts, nn.Linear(WIDTH, 1000))
    experts.keep_own_experts()
    model.to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for batch in torch.randperm(4000).split(80)[:steps]:
        own = batch.chunk(ranks)[rank]  # equally many for each rank
        x, y = text[own].to(device), following[own].to(device)
        loss = functional.cross_entropy(model(x), y)
        sgd.zero_grad()
        loss.backward()
        average_gradients(model)
        sgd.step()
    whole, mean = model.state_dict(), loss.detach() / ranks
    dist.all_reduce(mean)
    for name in ("1.wide", "1.narrow"):
        parts = [torch.empty_like(whole[name]) for _ in range(ranks)]
        dist.all_gather(parts, whole[name])
        whole[name] = torch.cat(parts)
    return whole, mean.item()


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
    matrices, loss = train_experts(device)
    if dist.get_rank() == 0:
        print(f"loss of the last batch {loss:.3f}")
        if save:
            with open(f"{save}.{os.getpid()}", "xb") as file:
                torch.save(matrices, file)
            os.replace(file.name, save)  # never half a file
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
