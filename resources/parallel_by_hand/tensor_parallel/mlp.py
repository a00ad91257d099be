"""The MLP half of a transformer block, split the naive way and as the pair."""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportArgumentType=false, reportOptionalOperand=false

import copy

import torch
from torch import nn

from parallel_by_hand.tensor_parallel.messages_of_ours import messages_of_ours
from parallel_by_hand.tensor_parallel.split_layers import (
    ColumnParallel,
    GatheredColumns,
    RowParallel,
    own_part,
)
from sidebyside import MessageMeter, device


class MLPBlock(nn.Module):
    """The MLP half of a transformer block: x + narrow(GELU(wide(norm(x))))."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


def split_as_pair(block: MLPBlock, group=None) -> MLPBlock:
    """A copy of the MLP with this rank's neurons: first by columns, second by rows."""
    split = copy.deepcopy(block)
    split.set_submodule("wide", ColumnParallel(block.wide, group))
    split.set_submodule("narrow", RowParallel(block.narrow, group))
    return split


def split_naively(block: MLPBlock) -> MLPBlock:
    """A copy of the MLP, each layer split by columns and its outputs gathered."""
    split = copy.deepcopy(block)
    split.set_submodule("wide", GatheredColumns(block.wide))
    split.set_submodule("narrow", GatheredColumns(block.narrow))
    return split


ARRANGEMENTS = {"naive": split_naively, "pair": split_as_pair}


def meter_block(arrangement: str, width: int, samples: int) -> dict:
    """Runs in each rank: what the MLP's forward and backward call and send, the gaps.

    `calls` are the library's collectives, forward and backward; `bytes`, what this rank
    sends in all when lesson 10's own messages carry them out; `gaps`, the largest
    differences of outputs, input gradients and weight gradients from the unsplit block.
    """
    torch.manual_seed(0)  # the same block and batch on every rank
    whole = MLPBlock(width).double().to(device())
    x, gradient = torch.randn(2, samples, width, dtype=torch.float64).to(device())
    split = ARRANGEMENTS[arrangement](whole)
    with MessageMeter() as forward:
        y, x_split = _run_forward(split, x)
    with MessageMeter() as backward:
        y.backward(gradient)
    expected, x_whole = _run_forward(whole, x)
    expected.backward(gradient)
    gaps = {
        "output": _largest_gap(y, expected),
        "input gradient": _largest_gap(x_split.grad, x_whole.grad),
        "weight gradients": gap_to_whole(split, whole, of=lambda p: p.grad),
    }
    with messages_of_ours(), MessageMeter() as meter:
        _run_forward(split, x)[0].backward(gradient)
    calls = forward.collectives, backward.collectives
    single = meter.bytes_sent // 2  # as in 32 bits; here all numbers have 64
    return {"calls": calls, "bytes": single, "gaps": gaps}


def _run_forward(
    block: nn.Module, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the input as a tensor that gets a gradient."""
    x = x.clone().requires_grad_()
    return block(x), x


def gap_to_whole(split: nn.Module, whole: nn.Module, of=lambda p: p) -> float:
    """How far this rank's parts are from those of the unsplit MLP, at most."""
    named, gaps = dict(whole.named_parameters()), []
    for name, parameter in split.named_parameters():
        expected = of(named[name])
        for dim, length in enumerate(parameter.shape):
            if expected.shape[dim] != length:
                expected = own_part(expected, dim)
        gaps.append(_largest_gap(of(parameter), expected))
    return torch.tensor(gaps, dtype=torch.float64).max().item()


def _largest_gap(ours: torch.Tensor, expected: torch.Tensor) -> float:
    return (ours - expected).abs().max().item()
