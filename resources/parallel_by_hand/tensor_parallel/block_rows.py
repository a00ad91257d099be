"""Two more rows for the table of the block: cut by heads and neurons."""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false, reportOptionalOperand=false

import torch

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.model_parallel.transformer_block import (
    BlockCost,
    make_transformer_block,
)
from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.sequence_conjugates import own_positions
from parallel_by_hand.tensor_parallel.split_block import ENDS, split_block
from sidebyside import MessageMeter, device


def block_cut_by_neuron(
    way: str = "tensor", batch: int = 8, length: int = 16, width: int = 64
) -> BlockCost:
    """Runs in each rank: one step of the block as `block_cut_by_layer` takes it."""
    mine = split_block(make_transformer_block(width), ENDS[way]).to(device())
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, length, width, generator=generator).to(device())
    if way != "tensor":
        x = own_positions(x).contiguous()
    with messages_of_ours(), MessageMeter() as meter, KeptBytes(mine) as kept:
        outputs = batch * length * width  # of all ranks
        (mine(x.requires_grad_()).square().sum() / outputs).backward()
    return BlockCost(
        sum(p.nbytes for p in mine.parameters()), kept.peak, meter.bytes_sent
    )


def compare_split_block(way: str = "tensor") -> dict:
    """Runs in each rank: for the block's row, both halves beside the unsplit, 64 bits.

    `calls` are the collectives forward and backward; `bytes`, what this rank sends in
    32 bits by lesson 10's own messages; then the largest differences of outputs and of
    gradients of x, at this rank's positions.
    """
    whole = make_transformer_block(24, 4).double().to(device())
    mine = split_block(whole, ENDS[way])
    x = torch.randn(2, 12, 24, dtype=torch.float64, device=device()).requires_grad_()
    part = (lambda t: t) if way == "tensor" else own_positions
    x_split = part(x).detach().clone().requires_grad_()
    expected = whole(x)
    expected.square().sum().backward()
    with MessageMeter() as forward:
        y = mine(x_split)
    with MessageMeter() as backward:
        y.square().sum().backward()
    with messages_of_ours(), MessageMeter() as meter:
        mine(x_split.detach().requires_grad_()).square().sum().backward()
    return {
        "calls": (forward.collectives, backward.collectives),
        "bytes": meter.bytes_sent // 2,
        "output": (y - part(expected)).abs().max().item(),
        "gradient of x": (x_split.grad - part(x.grad)).abs().max().item(),
    }
