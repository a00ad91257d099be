"""What the check of local SGD runs in each rank, and what it notes there."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from sidebyside import MessageMeter, device, load_digits

RATE = 0.4


class LocalCase(NamedTuple):
    """`sizes`: of each rank's batches, one number for each step."""

    sizes: tuple[int, ...]
    every: int

    def meetings(self) -> int:
        return -(-len(self.sizes) // self.every)


class LocalNotes(NamedTuple):
    returned: object
    model: Tensor  # all parameters afterwards
    collectives: list[str]


def local_model() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12)
        model = nn.Sequential(nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 10))
    return model.to(device(), torch.float64)


def local_case_batches(case: LocalCase, rank: int) -> list[tuple[Tensor, Tensor]]:
    """Every rank has other images; those of a batch are never those of another."""
    images, labels = load_digits("train")
    dice = torch.Generator().manual_seed(rank)
    batches = []
    for size in case.sizes:
        mine = torch.randperm(len(images), generator=dice)[:size]
        x, y = images[mine].to(device(), torch.float64), labels[mine].to(device())
        batches.append((x, y))
    return batches


def flat_local_model(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().cpu().clone()


def try_train_locally(train: Callable, cases: list[LocalCase]) -> list[LocalNotes]:
    notes = []
    for case in cases:
        model, batches = local_model(), local_case_batches(case, dist.get_rank())
        with MessageMeter() as meter:
            returned = train(model, batches, RATE, case.every)
        notes.append(LocalNotes(returned, flat_local_model(model), meter.collectives))
    return notes


def trained_locally(case: LocalCase, ranks: int) -> Tensor:
    """The oracle: all ranks' models in one process, equal in the end."""
    models = [local_model() for _ in range(ranks)]
    batches = [local_case_batches(case, rank) for rank in range(ranks)]
    for step in range(1, len(case.sizes) + 1):
        for model, own in zip(models, batches, strict=True):
            parameters, (x, y) = list(model.parameters()), own[step - 1]
            gradients = torch.autograd.grad(F.cross_entropy(model(x), y), parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter -= RATE * gradient
        if step % case.every == 0 or step == len(case.sizes):
            mean = torch.stack([flat_local_model(model) for model in models]).mean(0)
            for model in models:
                nn.utils.vector_to_parameters(mean.clone(), model.parameters())
    return mean
