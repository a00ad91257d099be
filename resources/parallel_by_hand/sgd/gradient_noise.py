"""How noisy the gradient of a mini-batch is, and the batch that is worth having."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.sgd.digits_network import (
    digits_here,
    digits_network,
    flat_gradient,
)
from parallel_by_hand.sgd.fleets import updates_to_reach

SIZES = 1, 4, 16, 64, 256, 1415


def gradient_spread(model: nn.Module, batch: int, draws: int = 200) -> float:
    """How far a mini-batch gradient is from the gradient of all images: the RMS."""
    images, labels = digits_here("train")
    whole, dice = flat_gradient(model, images, labels), torch.Generator().manual_seed(1)
    squares = []
    for _ in range(draws):
        mine = torch.randint(len(images), (batch,), generator=dice)
        off = flat_gradient(model, images[mine], labels[mine]) - whole
        squares.append(off.square().sum().item())
    return np.sqrt(np.mean(squares)).item()


def squared_norms_in_training(
    rate: float, target: float, seed: int = 0, shards: int = 8, each: int = 8
) -> tuple[float, float]:
    """With noise: mean |g|² of a shard's gradient and the batch's, over a training."""
    images, labels = digits_here("train")
    model, dice = digits_network(seed), torch.Generator().manual_seed(seed)
    of_shards, of_batches = [], []
    while F.cross_entropy(model(images), labels) > target and len(of_shards) < 3000:
        mine = torch.randint(len(images), (shards, each), generator=dice)
        parts = torch.stack([flat_gradient(model, images[i], labels[i]) for i in mine])
        gradient = parts.mean(0)
        of_shards.append(parts.square().sum(1).mean().item())
        of_batches.append(gradient.square().sum().item())
        weights = nn.utils.parameters_to_vector(model.parameters()) - rate * gradient
        nn.utils.vector_to_parameters(weights.detach(), model.parameters())
    return float(np.mean(of_shards)), float(np.mean(of_batches))


def noise_scale_from_two_sizes(
    small: int, square_small: float, large: int, square_large: float
) -> float:
    """tr(Σ) / |G|², the simple noise scale, from the mean |g|² at two batch sizes.

    |g|² is |G|² + tr(Σ) / B on average: two sizes give two equations (McCandlish et
    al. 2018, An Empirical Model of Large-Batch Training, appendix A.1).
    """
    trace = (square_small - square_large) / (1 / small - 1 / large)
    return trace / (square_large - trace / large)


def fewest_updates(target: float, sizes=SIZES) -> dict[int, tuple[float, float]]:
    """What noise costs: for each batch size the (updates, rate) that needs fewest."""
    return {
        batch: min((n, rate) for rate, n in updates_to_reach(target, batch).items())
        for batch in sizes
    }


def fit_knee(updates: dict[int, float]) -> tuple[float, float]:
    """Where noise stops to matter: (fewest, knee) of fewest * (1 + knee / batch)."""
    batches, counts = np.array(list(updates)), np.array(list(updates.values()))
    knees = np.geomspace(0.1, 10_000, 2000)[:, None]
    ratios = np.log(counts) - np.log(1 + knees / batches)
    best = ratios.std(axis=1).argmin()
    return float(np.exp(ratios[best].mean())), float(knees[best, 0])
