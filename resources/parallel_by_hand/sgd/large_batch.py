"""Sixteen times the batch: learning rates that are scaled, and warmed up."""

from collections.abc import Callable

import torch

from parallel_by_hand.sgd.digits_network import digits_here, digits_network
from parallel_by_hand.sgd.fleets import Fleet

SMALL, TIMES, EPOCHS, WARM_UP = 8, 16, 10, 4  # images, -, epochs, epochs

Rate = Callable[[float], float]  # the learning rate after so many epochs


def large_batch_rates(base: float) -> dict[str, tuple[int, Rate]]:
    """Each way to train: its batch size, and its learning rate over the epochs."""
    high = TIMES * base
    return {
        "small batch": (SMALL, lambda epoch: base),
        "large, unscaled": (SMALL * TIMES, lambda epoch: base),
        "large, scaled": (SMALL * TIMES, lambda epoch: high),
        "large, scaled, warm-up": (
            SMALL * TIMES,
            lambda epoch: base + (high - base) * min(1, epoch / WARM_UP),
        ),
    }


def errors_after_epochs(batch: int, rates: list[Rate], seeds: int) -> torch.Tensor:
    """Large batches or small: percent of held-out images wrong, by rate and seed."""
    images, labels = digits_here("train")
    fleet = Fleet([digits_network(seed) for _ in rates for seed in range(seeds)])
    dice, steps = torch.Generator().manual_seed(2), len(images) // batch
    for epoch in range(EPOCHS):
        decks = [torch.randperm(len(images), generator=dice) for _ in range(seeds)]
        batches = torch.stack(decks)[:, : steps * batch].split(batch, dim=1)
        for step, mine in enumerate(batches):
            now = torch.tensor([float(rate(epoch + step / steps)) for rate in rates])
            mine = mine.repeat(len(rates), 1)  # all rates see the same images
            fleet.step(images[mine], labels[mine], now.repeat_interleave(seeds))
    return 100 * fleet.errors(*digits_here("test")).view(len(rates), seeds)


def mean_and_interval(values: torch.Tensor) -> tuple[float, float]:
    """The mean of a large batch's errors, and half its 95 % interval over the seeds."""
    return values.mean().item(), (2 * values.std() / len(values) ** 0.5).item()
