"""A convolutional network on two ranks: by layers, by channels and by space."""

import copy
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.model_parallel.convolution_cuts import (
    CHANNELS,
    Swap,
    half_of_channels,
    make_convolutions,
    scores_by_channels,
    scores_by_layers,
    scores_by_space,
    scores_of_images,
)
from parallel_by_hand.model_parallel.cut_training import largest_gap
from sidebyside import MessageMeter, device, load_digits

WAYS = ("layers", "channels", "space")


class NotesOfThreeWays(NamedTuple):
    """What one rank reports: its parameters after each step, and bytes of one step."""

    history: list[list[Tensor]]
    sent: int
    parameters: int
    kept: int  # activations, for the way back


def digits_for_step(step: int, batch: int, zoom: int = 1) -> tuple[Tensor, Tensor]:
    """For all three ways: digits as images of 8 · zoom rows and columns; labels."""
    images, labels = load_digits("train")
    mine = torch.arange(step * batch, (step + 1) * batch) % len(images)
    pixels = images[mine].view(-1, 1, 8, 8)
    large = pixels.repeat_interleave(zoom, 2).repeat_interleave(zoom, 3)
    return large.to(device()), labels[mine].to(device())


def _part_of_network(way: str, whole: nn.ModuleList) -> nn.ModuleList:
    """What this rank holds: some layers, half of each layer, or everything."""
    if way == "layers":
        return whole[:2] if dist.get_rank() == 0 else whole[2:]
    if way == "channels":
        convolutions: Any = whole
        return nn.ModuleList(map(half_of_channels, convolutions))
    return copy.deepcopy(whole)


def _loss_of_split(
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


def _add_gradients_of_other(part: nn.ModuleList) -> None:
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
    """Runs in each rank: train its part, in one of the three ways, with plain SGD."""
    whole = make_convolutions((CHANNELS[0], maps, maps, CHANNELS[-1]))
    part, history = _part_of_network(way, whole).to(device()), []
    sgd = torch.optim.SGD(part.parameters(), lr=0.1)
    with MessageMeter() as meter, KeptBytes(part) as kept:
        for step in range(steps):
            sgd.zero_grad()
            _loss_of_split(way, part, *digits_for_step(step, batch, zoom)).backward()
            if way == "space":
                _add_gradients_of_other(part)
            sgd.step()
            history.append([p.detach().cpu().clone() for p in part.parameters()])
    held = sum(p.nbytes for p in part.parameters())
    return NotesOfThreeWays(history, meter.bytes_sent // steps, held, kept.peak)


def gap_to_one_process(
    way: str, parts: list[NotesOfThreeWays], one: list[list[Tensor]]
) -> float:
    """Of the three ways: the largest difference of any parameter after any step."""
    front, back = (part.history for part in parts)
    if way == "layers":
        together = [a + b for a, b in zip(front, back, strict=True)]
    elif way == "channels":
        together = [
            [torch.cat(halves) for halves in zip(a, b, strict=True)]
            for a, b in zip(front, back, strict=True)
        ]
    else:
        together = front if largest_gap(front, back) == 0 else []
    return largest_gap(together, one)
