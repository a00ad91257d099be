"""Parallel SGD: models averaged once at the end, or gradients at each step."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    flat_gradient,
)

BATCH, RATE = 4, 0.5  # of each worker


def worker_batches(workers: int, steps: int) -> list[list[torch.Tensor]]:
    """Parallel SGD's batches: for each worker, indices from its own share of images."""
    images, _ = digits_here("train")
    shares = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    batches = []
    for worker, share in enumerate(shares.tensor_split(workers)):
        dice = torch.Generator().manual_seed(worker)
        drawn = torch.randint(len(share), (steps, BATCH), generator=dice)
        batches.append(list(share[drawn]))
    return batches


def average_models_once(
    models: list[nn.Module], batches: list, make_model: Callable = digits_network
) -> nn.Module:
    """Zinkevich et al. 2010: train each model alone, then average them, once."""
    images, labels = digits_here("train")
    for model, own in zip(models, batches, strict=True):
        for mine in own:
            _take_step(model, flat_gradient(model, images[mine], labels[mine]))
    return mean_of_models(models, make_model)


def average_gradients_each_step(model: nn.Module, batches: list) -> nn.Module:
    """One model in all workers: in each step their gradients are averaged."""
    images, labels = digits_here("train")
    for together in zip(*batches, strict=True):
        parts = [flat_gradient(model, images[i], labels[i]) for i in together]
        _take_step(model, torch.stack(parts).mean(0))
    return model


def _take_step(model: nn.Module, gradient: torch.Tensor) -> None:
    with torch.no_grad():
        weights = parameters_to_vector(model.parameters()) - RATE * gradient
        vector_to_parameters(weights, model.parameters())


def mean_of_models(models: list[nn.Module], make_model: Callable) -> nn.Module:
    """Parallel SGD's new model, of which each parameter is the mean of the models'."""
    mean = make_model()
    vectors = [parameters_to_vector(model.parameters()) for model in models]
    vector_to_parameters(torch.stack(vectors).mean(0).detach(), mean.parameters())
    return mean


def in_another_order(model: nn.Module, seed: int = 0) -> nn.Module:
    """Equal, and yet no mean: a network with its hidden units in another order."""
    other, dice = digits_network(), torch.Generator().manual_seed(seed)
    state = model.state_dict()
    order = torch.randperm(len(state["0.bias"]), generator=dice)
    for name in ("0.weight", "0.bias"):
        state[name] = state[name][order]
    state["2.weight"] = state["2.weight"][:, order]
    other.load_state_dict(state)
    return other


@torch.no_grad()
def held_out(model: nn.Module) -> tuple[float, float]:
    """Parallel SGD's loss and share of wrong answers, on images no worker has seen."""
    images, labels = digits_here("test")
    answers = model(images)
    wrong = (answers.argmax(1) != labels).float().mean().item()
    return F.cross_entropy(answers, labels).item(), wrong


def best_model_of(models: list[nn.Module]) -> nn.Module:
    """Of the workers' models, the one with the least loss on held-out images."""
    return min(models, key=lambda model: held_out(model)[0])
