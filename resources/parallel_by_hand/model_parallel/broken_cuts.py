"""Two silent mistakes of a cut, skips and tied weights, and their cures."""

from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from parallel_by_hand.collectives.eight_collectives import exchange
from parallel_by_hand.model_parallel.cut_messages import SendForward, receive_across_cut
from parallel_by_hand.model_parallel.cut_training import as_array, batches_to_cut
from sidebyside import MessageMeter, device


class BrokenCutNotes(NamedTuple):
    """Of one rank: the loss at each step (last rank only), bytes sent, its weights."""

    losses: list[float]
    sent: int
    weights: list[np.ndarray]  # one weight, after each step


# A skip connection across the cut -----------------------------------------------------


class SkipNetwork(nn.Module):
    """A cut breaks it: `early` is used twice, by `second` and again behind `third`."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 32)
        self.third, self.last = nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.behind_cut(*self.before_cut(images))

    def before_cut(self, images: Tensor) -> tuple[Tensor, Tensor]:
        early = torch.tanh(self.first(images))
        return torch.tanh(self.second(early)), early

    def behind_cut(self, late: Tensor, early: Tensor) -> Tensor:
        return self.last(torch.tanh(self.third(late)) + early)


def send_skip_as_data(late: Tensor, early: Tensor) -> Tensor:
    """A broken cut: the skip's activations are sent, and no gradient comes back."""
    dist.send(early.detach(), 1)
    return SendForward.apply(late, 1)


def _receive_as_data(shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    early = torch.empty(shape, device=device())
    dist.recv(early, 0)
    return receive_across_cut(shape, 0), early


def send_skip_with_gradient(late: Tensor, early: Tensor) -> Tensor:
    """The broken cut repaired: both travel, and both gradients come back."""
    return SendForward.apply(torch.cat([late, early], dim=1), 1)


def _receive_with_gradient(shape: tuple[int, int]) -> tuple[Tensor, ...]:
    both = receive_across_cut((shape[0], 2 * shape[1]), 0)
    return both.chunk(2, dim=1)


SKIPS = {
    "as data": (send_skip_as_data, _receive_as_data),
    "with its gradient": (send_skip_with_gradient, _receive_with_gradient),
}


def train_with_skip(way: str = "as data", steps: int = 4) -> BrokenCutNotes:
    """Runs in each rank: four steps of SGD, cut at a skip, broken or repaired."""
    network, rank = SkipNetwork().to(device()), dist.get_rank()
    cut, (send, receive) = dist.get_world_size() > 1, SKIPS[way]
    sgd = torch.optim.SGD(network.parameters(), lr=0.5)
    losses, weights = [], []
    with MessageMeter() as meter:
        for images, labels in batches_to_cut(steps):
            images, labels = images.to(device()), labels.to(device())
            sgd.zero_grad()
            if rank == 0:
                late, early = network.before_cut(images)
            else:
                late, early = receive((len(images), 32))
            if cut and rank == 0:
                loss = send(late, early)
            else:
                loss = F.cross_entropy(network.behind_cut(late, early), labels)
            loss.backward()
            sgd.step()
            losses.append(loss.item())
            weights.append(as_array(network.first.weight))
    return BrokenCutNotes(losses, meter.bytes_sent, weights)


# One weight on both sides of the cut --------------------------------------------------


def _add_tied_gradient(weight: nn.Parameter, peer: int) -> None:
    """Make the gradient the sum of both copies' gradients; `peer` holds the other copy.

    Called by both holders after backward. Each sends one message of the weight's size.
    a + b and b + a have the same bits, so equal copies stay equal.
    """
    mine = torch.zeros_like(weight) if weight.grad is None else weight.grad
    theirs = torch.empty_like(mine)
    exchange({peer: mine.contiguous()}, {peer: theirs})
    weight.grad = mine + theirs


def train_tied(add: bool = False, steps: int = 40) -> BrokenCutNotes:
    """Runs in each rank, cut at tied weights: squeeze digits into 16 numbers."""
    torch.manual_seed(0)
    weight = nn.Parameter(0.1 * torch.randn(16, 64).to(device()))
    rank, cut = dist.get_rank(), dist.get_world_size() > 1
    sgd, losses, weights = torch.optim.SGD([weight], lr=2.0), [], []
    with MessageMeter() as meter:
        for images, _ in batches_to_cut(steps):
            images = images.to(device())
            sgd.zero_grad()
            if rank == 0:
                code = torch.tanh(images @ weight.T)
            if cut and rank == 0:
                loss = SendForward.apply(code, 1)
            else:
                if cut:
                    code = receive_across_cut((len(images), 16), 0)
                loss = F.mse_loss(code @ weight, images)
            loss.backward()
            if cut and add:
                _add_tied_gradient(weight, peer=1 - rank)
            sgd.step()
            losses.append(loss.item())
            weights.append(as_array(weight))
    return BrokenCutNotes(losses, meter.bytes_sent, weights)
