"""One transformer block, and a table of what it costs each way that it is cut."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.model_parallel.cut_messages import SendForward, receive_across_cut
from sidebyside import MessageMeter, device


class AttentionHalf(nn.Module):
    """x + attention(norm(x)): a position looks at itself and at those before it."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.into(self.norm(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5
        ahead = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(ahead, -torch.inf).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, length, width)
        return x + self.out(mixed)


class MLPHalf(nn.Module):
    """x + mlp(norm(x)): each position by itself, four times as wide inside."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.wide(self.norm(x)))
        return x + self.narrow(hidden)


def make_transformer_block(width: int = 64, heads: int = 4) -> nn.Sequential:
    """The block that lessons 14 to 17 cut, the same in every process: two halves."""
    torch.manual_seed(0)
    return nn.Sequential(AttentionHalf(width, heads), MLPHalf(width))


class BlockCost(NamedTuple):
    """What one rank holds of the transformer block and sends for one step, in bytes."""

    parameters: int
    activations: int
    sent: int


def block_cut_by_layer(batch: int = 8, length: int = 16, width: int = 64) -> BlockCost:
    """Runs in each rank: a step of the transformer block, whole in one, cut in two."""
    block = make_transformer_block(width)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = (block if ranks == 1 else block[rank]).to(device())
    shape = batch, length, width
    generator = torch.Generator().manual_seed(1)
    with MessageMeter() as meter, KeptBytes(mine) as kept:
        if rank == 0:
            x = torch.randn(shape, generator=generator).to(device()).requires_grad_()
        else:
            x = receive_across_cut(shape, rank - 1)
        y = mine(x)
        loss = (
            y.square().mean() if rank == ranks - 1 else SendForward.apply(y, rank + 1)
        )
        loss.backward()
    held = sum(p.nbytes for p in mine.parameters())
    return BlockCost(held, kept.peak, meter.bytes_sent)


def print_block_table(rows: dict[str, list[BlockCost]]) -> None:
    """One line for each rank of each way to cut: bytes of the block."""
    columns = "parameters  activations     sent"
    print(f"{'the block':<12} rank {columns:>32}")
    for way, ranks in rows.items():
        for rank, cost in enumerate(ranks):
            print(
                f"{way:<12} {rank:4} {cost.parameters:11,} {cost.activations:12,}"
                f" {cost.sent:8,}"
            )
