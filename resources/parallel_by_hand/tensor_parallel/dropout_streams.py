"""Dropout in a split block: where ranks draw equal numbers, and where their own."""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.tensor_parallel.mlp import MLPBlock, split_as_pair
from sidebyside import device, load_digits

WIDTH = 16


def dropout_stream(*key: int) -> torch.Generator:
    """A stream for each key, independent of the others (lesson 05's SeedSequence)."""
    child = np.random.SeedSequence(16, spawn_key=key)
    seed = int(child.generate_state(1, np.uint64)[0])
    return torch.Generator(device()).manual_seed(seed)


def choose_stream(place: int, kind: str) -> torch.Generator:
    """For dropout here: the same stream on all ranks, or this rank's own."""
    rank = () if kind == "equal" else (dist.get_rank(),)
    return dropout_stream(place, *rank)


def drop(x: torch.Tensor, rate: float, stream: torch.Generator) -> torch.Tensor:
    """Dropout with numbers of this stream: some become 0, the rest grow to make up."""
    keep = torch.rand(x.shape, generator=stream, device=x.device) >= rate
    return x * keep / (1 - rate)


class _DroppingBlock(nn.Module):
    """The split block with dropout at both places, and a stream for each."""

    def __init__(self, block: MLPBlock, rate: float, inside: str, after: str):
        super().__init__()
        self.block, self.rate = block, rate
        self.inside, self.after = choose_stream(0, inside), choose_stream(1, after)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.block.wide(self.block.norm(x)))
        hidden = drop(hidden, self.rate, self.inside)
        return x + drop(self.block.narrow(hidden), self.rate, self.after)


def train_with_streams(inside: str, after: str, rate: float, steps: int):
    """Runs in each rank: trained with dropout's streams, the replicated parameters."""
    torch.manual_seed(0)
    block = split_as_pair(MLPBlock(WIDTH).to(device()))
    dropping = _DroppingBlock(block, rate, inside, after)
    model = nn.Sequential(nn.Linear(64, WIDTH), dropping, nn.Linear(WIDTH, 10))
    model.to(device())
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.arange(len(images)).split(64)[:steps]:
        sgd.zero_grad()
        F.cross_entropy(model(images[batch]), labels[batch]).backward()
        sgd.step()
    replicated = [p for m in (model[0], block.norm, model[2]) for p in m.parameters()]
    return torch.cat([p.detach().flatten().cpu() for p in replicated])


def dropped_together(kind: str, rate: float, draws: int = 1000) -> torch.Tensor:
    """Runs in each rank: in which draws dropout takes the first of its neurons."""
    stream = choose_stream(0, kind)
    zeros = drop(torch.ones(draws, 4, device=device()), rate, stream) == 0
    return zeros[:, 0].cpu()
