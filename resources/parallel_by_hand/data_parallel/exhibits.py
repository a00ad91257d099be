"""The bug museum: seven small data-parallel programs, each with one planted mistake.

Each is a generator. It yields its model at the start and after each step, so that a
meter can look at it; F yields what it would print. All but A run in every rank.
`batches` is a list of pairs (images, labels), the same in all ranks. Numbers have 64
bits: what is left of a difference is a mistake and not rounding.
"""

# A `.grad` is there after backward; torch says that it may be None.
# pyright: reportOperatorIssue=false

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from sidebyside import device, load_digits

LR, LONGEST = 0.5, 0.25


def make_model(seed: int = 0) -> nn.Module:
    """The small network that the exhibits train; equal for equal seeds."""
    torch.manual_seed(seed)
    layers = nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)
    return nn.Sequential(*layers).to(device(), torch.float64)


def make_trained_model() -> nn.Module:
    """The exhibits' network, the same in every rank, and good enough to be tested."""
    model, (images, labels) = make_model(), load_digits("train")
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    for _ in range(40):
        sgd.zero_grad()
        loss = cross_entropy(model(images.to(device()).double()), labels.to(device()))
        loss.backward()
        sgd.step()
    return model


def my_share(labels: torch.Tensor) -> slice:
    """An exhibit's share: every second image for each of two ranks, every third ..."""
    return slice(dist.get_rank(), None, dist.get_world_size())


def exhibit_a(batches: list, replicas: int = 2) -> Iterator:
    model = make_model()
    models = [model.to(device()) for _ in range(replicas)]
    yield models
    for x, y in batches:
        parts = zip(models, x.chunk(replicas), y.chunk(replicas), strict=True)
        for replica, images, labels in parts:
            cross_entropy(replica(images), labels).backward()
        for first, *others in zip(*(m.parameters() for m in models), strict=True):
            gradient = sum(p.grad for p in (first, *others)) / replicas
            first.data -= LR * gradient
            for parameter in others:
                parameter.data.copy_(first.data)
            for parameter in (first, *others):
                parameter.grad = None
        yield models


def exhibit_b(batches: list) -> Iterator:
    model = make_model()
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    yield model
    for x, y in batches:
        mine = my_share(y)
        cross_entropy(model(x[mine]), y[mine]).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        sgd.step()
        sgd.zero_grad()
        yield model


def exhibit_c(batches: list) -> Iterator:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = make_model(seed=rank)
    yield model
    for x, y in batches:
        mine = my_share(y)
        cross_entropy(model(x[mine]), y[mine]).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.data -= LR * parameter.grad / ranks
            parameter.grad = None
        yield model


def exhibit_d(batches: list) -> Iterator:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = make_model()
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    yield model
    for x, y in batches:
        mine = slice(32 * rank, 32 * rank + 32)  # the last rank takes what is left
        loss = cross_entropy(model(x[mine]), y[mine])
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= ranks
        sgd.step()
        sgd.zero_grad()
        yield model


def exhibit_e(batches: list) -> Iterator:
    model = make_model()
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    yield model
    for x, y in batches:
        mine = my_share(y)
        cross_entropy(model(x[mine]), y[mine]).backward()
        sgd.step()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        sgd.zero_grad()
        yield model


def exhibit_f(batches: list) -> Iterator:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = make_trained_model()
    for x, y in batches:  # one batch: all images of the test
        mine = slice(rank * len(y) // ranks, (rank + 1) * len(y) // ranks)
        right = (model(x[mine]).argmax(1) == y[mine]).sum()
        yield right.item() / len(y[mine])


def exhibit_g(batches: list) -> Iterator:
    model = make_model()
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    yield model
    for x, y in batches:
        mine = my_share(y)
        cross_entropy(model(x[mine]), y[mine]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), LONGEST)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        sgd.step()
        sgd.zero_grad()
        yield model


EXHIBITS = {
    "A": exhibit_a,
    "B": exhibit_b,
    "C": exhibit_c,
    "D": exhibit_d,
    "E": exhibit_e,
    "F": exhibit_f,
    "G": exhibit_g,
}
