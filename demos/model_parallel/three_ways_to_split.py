"""Train a convolutional network on two ranks three ways: by layers, channels and space.

Run:      python demos/model_parallel/three_ways_to_split.py
Look for: all three train the same network: after each step they are within rounding of
          one process. They send and keep very different numbers of bytes.
Try:      --zoom 4: larger images. By space sends little more, the others a lot more.
          --maps 64 --batch 4: many channels, few images. Now the weights' gradients
          cost by space more than the images save.
"""

import argparse
import copy
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from demos.model_parallel.parts.convolution_cuts import (
    CHANNELS,
    Swap,
    bytes_of_splits,
    half_of_channels,
    make_convolutions,
    scores_by_channels,
    scores_by_layers,
    scores_by_space,
    scores_of_images,
)
from demos.pipeline.parts.kept_bytes import KeptBytes
from sidebyside import MessageMeter, at_least, device, load_digits, run_ranks
from sidebyside.programs import run_program

WAYS = ("layers", "channels", "space")
HEAD_OF_SPLITS = (
    "              gap   bytes of rank 0 and 1: sent"
    "             parameters       activations kept"
)


class NotesOfThreeWays(NamedTuple):
    """What one rank reports: its parameters after each step, and bytes of one step."""

    history: list[list[Tensor]]
    sent: int
    parameters: int
    kept: int  # activations, for the way back


def digits_for_step(step: int, batch: int, zoom: int = 1) -> tuple[Tensor, Tensor]:
    """`batch` digits as images of 8 · zoom rows and columns, and their labels."""
    images, labels = load_digits("train")
    mine = torch.arange(step * batch, (step + 1) * batch) % len(images)
    pixels = images[mine].view(-1, 1, 8, 8)
    large = pixels.repeat_interleave(zoom, 2).repeat_interleave(zoom, 3)
    return large.to(device()), labels[mine].to(device())


def part_of_network(way: str, whole: nn.ModuleList) -> nn.ModuleList:
    """What this rank holds: some layers, half of each layer, or everything."""
    if way == "layers":
        return whole[:2] if dist.get_rank() == 0 else whole[2:]
    if way == "channels":
        return nn.ModuleList(map(half_of_channels, whole))
    return copy.deepcopy(whole)


def loss_of_split(
    way: str, part: nn.ModuleList, images: Tensor, labels: Tensor
) -> Tensor:
    """What this rank calls `backward` on. Over both ranks that adds up to the loss."""
    rank, shape = dist.get_rank(), images.shape
    if way == "one process":
        return F.cross_entropy(scores_of_images(part, images), labels)
    if way == "layers":
        leaving = scores_by_layers(part, images)
        return leaving if rank == 0 else F.cross_entropy(leaving, labels)
    if way == "channels":
        scores = scores_by_channels(part, images)
    else:
        rows = images.chunk(2, dim=2)[rank]
        scores = scores_by_space(part, rows, shape[2] * shape[3])
    return F.cross_entropy(scores, labels) / 2  # both ranks have it


def add_gradients_of_other(part: nn.ModuleList) -> None:
    """By space each rank has the gradients of its own pixels: swap them, and add."""
    gradients = [p.grad for p in part.parameters()]
    mine = torch.cat([gradient.flatten() for gradient in gradients])
    total = mine + Swap.apply(mine, 1 - dist.get_rank())
    pieces = total.split([gradient.numel() for gradient in gradients])
    for gradient, piece in zip(gradients, pieces, strict=True):
        gradient.copy_(piece.view_as(gradient))


def train_split(
    way: str, steps: int = 10, batch: int = 64, zoom: int = 1, maps: int = CHANNELS[1]
) -> NotesOfThreeWays:
    """Runs in each rank: train this rank's part with plain SGD."""
    whole = make_convolutions((CHANNELS[0], maps, maps, CHANNELS[-1]))
    part, history = part_of_network(way, whole).to(device()), []
    sgd = torch.optim.SGD(part.parameters(), lr=0.1)
    with MessageMeter() as meter, KeptBytes(part) as kept:
        for step in range(steps):
            sgd.zero_grad()
            loss_of_split(way, part, *digits_for_step(step, batch, zoom)).backward()
            if way == "space":
                add_gradients_of_other(part)
            sgd.step()
            history.append([p.detach().cpu().clone() for p in part.parameters()])
    held = sum(p.nbytes for p in part.parameters())
    return NotesOfThreeWays(history, meter.bytes_sent // steps, held, kept.peak)


def gap_to_one_process(
    way: str, parts: list[NotesOfThreeWays], one: list[list[Tensor]]
) -> float:
    """The largest difference of any parameter after any step."""
    front, back = (part.history for part in parts)
    if way == "layers":
        together = [a + b for a, b in zip(front, back, strict=True)]
    elif way == "channels":
        together = [
            [torch.cat(halves) for halves in zip(a, b, strict=True)]
            for a, b in zip(front, back, strict=True)
        ]
    else:
        together = front if _equal_after_every_step(front, back) else []
    gaps = [
        (a - b).abs().max()
        for ours, theirs in zip(together, one, strict=True)
        for a, b in zip(ours, theirs, strict=True)
    ]
    return torch.stack(gaps).max().item()


def _equal_after_every_step(one: list[list[Tensor]], other: list[list[Tensor]]) -> bool:
    return all(
        torch.equal(a, b)
        for mine, theirs in zip(one, other, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    )


def print_split(way: str, parts: list[NotesOfThreeWays], gap: float) -> None:
    """One line: the gap, and the bytes of rank 0 and of rank 1."""
    columns = zip(*((p.sent, p.parameters, p.kept) for p in parts), strict=True)
    cells = "".join(f"{a:>12,}{b:>11,}" for a, b in columns)
    print(f"{way:<9}{gap:>8.0e}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--steps", type=at_least(1, 100), default=10, help="default: 10")
    add("--batch", type=at_least(1, 512), default=64, help="images; default: 64")
    add(
        "--zoom", type=at_least(1, 8), default=1, help="8 pixels times this; default: 1"
    )
    add("--maps", type=at_least(2, 128), default=16, help="even; default: 16")
    args = parser.parse_args()
    if args.maps % 2:
        parser.error(f"argument --maps: two ranks need an even number, not {args.maps}")
    sizes = args.steps, args.batch, args.zoom, args.maps

    side, channels = 8 * args.zoom, (1, args.maps, args.maps, 10)
    print(f"{args.batch} images of {side} x {side}, channels {channels}")
    print(HEAD_OF_SPLITS)
    one = run_ranks(train_split, "one process", *sizes, world_size=1)[0].history
    predicted = bytes_of_splits(args.batch, channels, side, side)
    for way in WAYS:
        parts = run_ranks(train_split, way, *sizes)
        print_split(way, parts, gap_to_one_process(way, parts, one))
    print(
        "predicted to be sent:", ", ".join(f"{w} {b:,}" for w, b in predicted.items())
    )


if __name__ == "__main__":
    run_program(main)
