"""Two more rows for the table of the block: cut by heads and neurons."""

import torch
from torch import nn

from demos.model_parallel.parts.transformer_block import (
    BlockCost,
    make_transformer_block,
)
from demos.pipeline.parts.kept_bytes import KeptBytes
from demos.tensor_parallel.parts.messages_of_ours import messages_of_ours
from demos.tensor_parallel.parts.sequence_conjugates import own_positions
from demos.tensor_parallel.parts.split_block import ENDS, split_block
from sidebyside import MessageMeter, device


def block_cut_by_neuron(
    way: str = "tensor", batch: int = 8, length: int = 16, width: int = 64
) -> BlockCost:
    """Runs in each rank: one step of the block as `block_cut_by_layer` takes it.

    `way` is one of `ENDS`: with "tensor" all ranks hold all positions of x, otherwise
    each rank holds its own. All messages are sent by lesson 10's own collectives.
    """
    mine = split_block(make_transformer_block(width), ENDS[way]).to(device())
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, length, width, generator=generator).to(device())
    if way != "tensor":
        x = own_positions(x).contiguous()
    with messages_of_ours(), MessageMeter() as meter, KeptBytes(mine) as kept:
        take_block_step(mine, x, x.numel() if way == "tensor" else batch * length * width)
    return BlockCost(sum(p.nbytes for p in mine.parameters()), kept.peak, meter.bytes_sent)


def take_block_step(block: nn.Module, x: torch.Tensor, numbers: int) -> None:
    """Forward and backward; the loss is the mean square of all `numbers` outputs."""
    (block(x.requires_grad_()).square().sum() / numbers).backward()
