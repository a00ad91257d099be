"""Train a network for handwritten digits, cut over any number of ranks."""

import copy
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.memory.device_memory import DeviceMemory, training_state_bytes
from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.model_parallel.cut_messages import SendForward, receive_across_cut
from sidebyside import MessageMeter, device, load_digits, span

WIDTH, LAYERS = 512, 8


def make_layers_to_cut(width: int = WIDTH, layers: int = LAYERS) -> nn.Sequential:
    """Fully-connected layers, 64 pixels in, ten scores out; equal in every process."""
    torch.manual_seed(0)
    sizes = [64] + [width] * (layers - 1) + [10]
    linear = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    for layer in linear:
        nn.init.kaiming_normal_(layer.weight)  # or eight layers learn nothing
    hidden = [nn.Sequential(layer, nn.ReLU()) for layer in linear[:-1]]
    return nn.Sequential(*hidden, linear[-1])


def batches_to_cut(steps: int, batch: int = 128) -> list[tuple[Tensor, Tensor]]:
    """Batches for cut training: the first ones, and again after the last."""
    images, labels = load_digits("train")
    full = len(images) // batch
    pieces = torch.arange(full * batch).split(batch)
    return [(images[pieces[s % full]], labels[pieces[s % full]]) for s in range(steps)]


class CutNotes(NamedTuple):
    """What one rank reports of cut training: parameters of each step, bytes, losses."""

    history: list[list[np.ndarray]]
    memory: dict[str, int]
    meter: MessageMeter
    losses: list[float]  # of the last rank; the others have none


def step_of_part(
    layers: nn.Module, images: Tensor, labels: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """Forward and backward of this rank's part of a cut, over which autograd sends."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    entering = images
    if rank > 0:
        entering = receive_across_cut(shape, rank - 1)
    with span("forward"):
        leaving = layers(entering)
        if rank == last:
            leaving = F.cross_entropy(leaving, labels)
    if rank < last:
        leaving = SendForward.apply(leaving, rank + 1)
    with span("backward"):
        leaving.backward()
    return leaving.detach()


def train_part(
    counts: list[int],
    steps: int = 10,
    budget: int | None = None,
    width: int = WIDTH,
    batch: int = 128,
) -> CutNotes:
    """Runs in each rank: train `counts[rank]` layers of the cut network for some steps.

    With one rank, and `counts` of one number, that is the unsplit network.
    """
    rank, history, losses = dist.get_rank(), [], []
    first, behind = [0, *accumulate(counts)][rank : rank + 2]
    drawn = make_layers_to_cut(width, sum(counts))  # all, or the weights would differ
    with DeviceMemory(budget) as memory, MessageMeter() as meter:
        layers = copy.deepcopy(drawn[first:behind]).to(device())
        sgd = torch.optim.SGD(layers.parameters(), lr=0.01, momentum=0.9)
        with KeptBytes(layers) as kept:
            for images, labels in batches_to_cut(steps, batch):
                images, labels = images.to(device()), labels.to(device())
                sgd.zero_grad()
                loss = step_of_part(layers, images, labels, (batch, width))
                with span("update"):
                    sgd.step()
                losses.append(loss.item())
                history.append([as_array(p) for p in layers.parameters()])
        held = training_state_bytes(layers, sgd)
    held |= {"activations": kept.peak, "peak": memory.peak}
    return CutNotes(history, held, meter, losses if rank == len(counts) - 1 else [])


def as_array(parameter: Tensor) -> np.ndarray:
    """A copy for the record of cut training, which no budget counts."""
    return parameter.detach().cpu().numpy().copy()


def gap_of_histories(parts: list[CutNotes], whole: CutNotes) -> float:
    """Of cut training: the largest difference of any parameter after any step."""
    steps = zip(*(part.history for part in parts), strict=True)
    return largest_gap([list(chain(*of_ranks)) for of_ranks in steps], whole.history)


def largest_gap(ours: list, theirs: list) -> float:
    """Of two histories of cut training: the same; nan, if a difference is."""
    pairs = zip(chain(*ours), chain(*theirs), strict=True)
    return float(np.max([abs(a - b).max() for a, b in pairs]))
