"""Steps of one's own, and models that are averaged only now and then."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from parallel_by_hand.collectives.all_reduces import ring_all_reduce
from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    flat_gradient,
)
from parallel_by_hand.sgd.parallel_sgd import RATE
from sidebyside import MessageMeter

LOCAL_BATCH, LOCAL_RATE = 8, RATE  # of lesson 8's workers: 0.5


class LocalRun(NamedTuple):
    """What a rank of local SGD reports: its parameters after each step (row 0: the
    start), and what it sent."""

    history: Tensor
    meter: MessageMeter


def local_batches(
    rank: int, ranks: int, steps: int, in_order: bool = False, seed: int = 0
) -> list[Tensor]:
    """Local SGD's batches of this rank: indices from its own share of the images.

    Shares are shuffled, or, if `in_order`, cut from the images sorted by their digit.
    """
    _, labels = digits_here("train")
    shuffled = torch.randperm(
        len(labels), generator=torch.Generator().manual_seed(seed)
    )
    deck = labels.cpu().argsort(stable=True) if in_order else shuffled
    share = deck.tensor_split(ranks)[rank]
    dice = torch.Generator().manual_seed(1000 + rank + 100 * seed)
    return list(share[torch.randint(len(share), (steps, LOCAL_BATCH), generator=dice)])


def flat_parameters(model: nn.Module) -> Tensor:
    """The parameters of a rank of local SGD in one vector, a copy."""
    return parameters_to_vector(model.parameters()).detach().clone()


def local_step(model: nn.Module, mine: Tensor) -> None:
    """A step of local SGD on the images with these indices."""
    images, labels = digits_here("train")
    step = LOCAL_RATE * flat_gradient(model, images[mine], labels[mine])
    vector_to_parameters(flat_parameters(model) - step, model.parameters())


def average_models(model: nn.Module) -> None:
    """A meeting of local SGD: every rank gets the mean of all models (ring of 10b)."""
    flat = flat_parameters(model)
    ring_all_reduce(flat)
    vector_to_parameters(flat / dist.get_world_size(), model.parameters())


class OuterMomentum:
    """Local SGD with momentum: the mean change of a round is taken for a gradient.

    The outer step of DiLoCo (Douillard et al., 2023), with its constants. With rate 1
    and momentum 0 it is `average_models`.
    """

    def __init__(self, model: nn.Module, rate: float = 0.7, momentum: float = 0.9):
        self.start = flat_parameters(model)  # of the round; equal on all ranks
        nesterov = momentum > 0
        self.sgd = torch.optim.SGD([self.start], rate, momentum, nesterov=nesterov)

    def __call__(self, model: nn.Module) -> None:
        """A meeting: `model` moves to where the next round starts."""
        change = self.start - flat_parameters(model)  # points uphill, as gradients do
        ring_all_reduce(change)
        self.start.grad = change / dist.get_world_size()
        self.sgd.step()
        vector_to_parameters(self.start.clone(), model.parameters())


def train_local_sgd(
    every: int,
    steps: int = 128,
    in_order: bool = False,
    outer: bool = False,
    seed: int = 0,
) -> LocalRun:
    """Runs in each rank: `steps` steps of its own, a meeting after each `every`."""
    model = digits_network(seed)
    meet: Callable = OuterMomentum(model) if outer else average_models
    rank, ranks = dist.get_rank(), dist.get_world_size()
    batches = local_batches(rank, ranks, steps, in_order, seed)
    history = [flat_parameters(model)]
    with MessageMeter() as meter:
        for step, mine in enumerate(batches, start=1):
            local_step(model, mine)
            if step % every == 0 or step == steps:
                meet(model)
            history.append(flat_parameters(model))
    return LocalRun(torch.stack(history).cpu(), meter)


@torch.no_grad()
def loss_of(flat: Tensor, part: str = "train") -> float:
    """The mean loss over all images of `part` with parameters from local SGD."""
    model = digits_network()
    images, labels = digits_here(part)
    vector_to_parameters(flat.to(images.device), model.parameters())
    return nn.functional.cross_entropy(model(images), labels).item()


def drift(runs: list[LocalRun]) -> Tensor:
    """How far the ranks of local SGD are from their mean after each step: the root of
    the mean squared distance."""
    models = torch.stack([run.history for run in runs])
    away = models - models.mean(0)
    return away.square().sum(2).mean(0).sqrt()


def mean_bytes_sent(runs: list[LocalRun]) -> int:
    """Bytes that a rank sends in all of local SGD, on average over the ranks."""
    return sum(run.meter.bytes_sent for run in runs) // len(runs)


def train_with_each(distances: list[int], *options) -> list[LocalRun]:
    """Runs in each rank: local SGD once for each distance of meetings."""
    return [train_local_sgd(every, *options) for every in distances]
