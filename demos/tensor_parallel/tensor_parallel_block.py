"""Split the MLP half of a transformer block over ranks, the naive way and as the pair.

Run:      python demos/tensor_parallel/tensor_parallel_block.py
Look for: both give the outputs and gradients of the unsplit block. The pair, columns
          then rows, calls one all-reduce forward and one backward. The naive way
          gathers after each layer, calls four collectives and sends almost four times
          as many bytes.
Try:      --ranks 8, then --samples 512. Bytes grow with the samples, and hardly with
          the ranks. Weights are never sent.
"""

import argparse
import copy

import torch
from torch import nn

from demos.tensor_parallel.parts.messages_of_ours import messages_of_ours
from demos.tensor_parallel.parts.split_layers import (
    ColumnParallel,
    GatheredColumns,
    RowParallel,
    own_part,
)
from sidebyside import MessageMeter, at_least, device, run_ranks
from sidebyside.programs import run_program


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
    """A copy with this rank's neurons: the first by columns, the second by rows."""
    split = copy.deepcopy(block)
    split.wide = ColumnParallel(block.wide, group)
    split.narrow = RowParallel(block.narrow, group)
    return split


def split_naively(block: MLPBlock) -> MLPBlock:
    """A copy in which each layer is split by columns and its outputs are gathered."""
    split = copy.deepcopy(block)
    split.wide = GatheredColumns(block.wide)
    split.narrow = GatheredColumns(block.narrow)
    return split


ARRANGEMENTS = {"naive": split_naively, "pair": split_as_pair}


def meter_block(arrangement: str, width: int, samples: int) -> dict:
    """Runs in each rank: what one forward and one backward call and send, and the gaps.

    `calls` are the library's collectives, forward and backward; `bytes`, what this rank
    sends in all when lesson 10's own messages carry them out; `gaps`, the largest
    differences of outputs, input gradients and weight gradients from the unsplit block.
    """
    torch.manual_seed(0)  # the same block and batch on every rank
    whole = MLPBlock(width).double().to(device())
    x, gradient = torch.randn(2, samples, width, dtype=torch.float64).to(device())
    split = ARRANGEMENTS[arrangement](whole)
    with MessageMeter() as forward:
        y, x_split = run_forward(split, x)
    with MessageMeter() as backward:
        y.backward(gradient)
    expected, x_whole = run_forward(whole, x)
    expected.backward(gradient)
    gaps = {
        "output": largest_gap_of_block(y, expected),
        "input gradient": largest_gap_of_block(x_split.grad, x_whole.grad),
        "weight gradients": gap_to_whole(split, whole, of=lambda p: p.grad),
    }
    with messages_of_ours(), MessageMeter() as meter:
        run_forward(split, x)[0].backward(gradient)
    calls = forward.collectives, backward.collectives
    single = meter.bytes_sent // 2  # as in 32 bits; here all numbers have 64
    return {"calls": calls, "bytes": single, "gaps": gaps}


def run_forward(block: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the input as a tensor that gets a gradient."""
    x = x.clone().requires_grad_()
    return block(x), x


def gap_to_whole(split: nn.Module, whole: nn.Module, of=lambda p: p) -> float:
    """The largest difference of this rank's parts from those of the unsplit module.

    `of` says what is compared: the parameters themselves, or what it takes of them.
    """
    named, gaps = dict(whole.named_parameters()), []
    for name, parameter in split.named_parameters():
        expected = of(named[name])
        for dim, length in enumerate(parameter.shape):
            if expected.shape[dim] != length:
                expected = own_part(expected, dim)
        gaps.append(largest_gap_of_block(of(parameter), expected))
    return torch.tensor(gaps, dtype=torch.float64).max().item()


def largest_gap_of_block(ours: torch.Tensor, expected: torch.Tensor) -> float:
    return (ours - expected).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--ranks", type=at_least(1, 16), default=2)
    add("--width", type=at_least(1, 2048), default=64, help="default: 64")
    add("--samples", type=at_least(1, 4096), default=32, help="default: 32")
    args = parser.parse_args()
    if args.width % args.ranks:
        parser.error(f"argument --width: must be a multiple of --ranks, {args.ranks}")
    print(f"{args.ranks} ranks, {args.samples} samples, width {args.width}")
    for arrangement in ARRANGEMENTS:
        found = run_ranks(
            meter_block,
            arrangement,
            args.width,
            args.samples,
            world_size=args.ranks,
        )[0]
        forward, backward = (", ".join(calls) or "none" for calls in found["calls"])
        print(f"{arrangement}: each rank sends {found['bytes']:,} bytes in 32 bits")
        print(f"  forward   {forward}\n  backward  {backward}")
        for what, gap in found["gaps"].items():
            print(f"  {what} equal to the unsplit block's: {gap < 1e-10}")


if __name__ == "__main__":
    run_program(main)
