"""Train many copies of one small model at once, each with its own rate and images.

Hundreds of trainings of a tiny model would spend their time in Python. A fleet is one
training whose every tensor has one more dimension, the member of the fleet
(`torch.func`). Nothing passes from one member to another.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional as F

from parallel_by_hand.sgd.digits_network import digits_here, digits_network


class Fleet:
    """`models` of the same shape, trained by plain SGD side by side."""

    def __init__(self, models: list[nn.Module]):
        self.weights = {
            name: stacked.detach().clone()
            for name, stacked in stack_module_state(models)[0].items()
        }
        shape = models[0]

        def loss(weights: dict, images: Tensor, labels: Tensor) -> Tensor:
            return F.cross_entropy(functional_call(shape, weights, (images,)), labels)

        def answers(weights: dict, images: Tensor) -> Tensor:
            return functional_call(shape, weights, (images,))

        self._gradients = vmap(grad(loss))
        self._losses = vmap(loss, in_dims=(0, None, None))
        self._answers = vmap(answers, in_dims=(0, None))

    def step(self, images: Tensor, labels: Tensor, rates: Tensor) -> None:
        """One update of each member: its own images (members x batch x 64), rate."""
        for name, gradient in self._gradients(self.weights, images, labels).items():
            rate = rates.to(gradient.device).view(-1, *[1] * (gradient.dim() - 1))
            self.weights[name] -= rate * gradient

    def losses(self, images: Tensor, labels: Tensor) -> Tensor:
        """Each member's mean loss on the same images."""
        return self._losses(self.weights, images, labels).cpu()

    def errors(self, images: Tensor, labels: Tensor) -> Tensor:
        """The share of these images that each member gets wrong."""
        wrong = self._answers(self.weights, images).argmax(2) != labels
        return wrong.float().mean(1).cpu()


RATES = [2.0**power for power in range(-4, 3)]
"""The learning rates that are tried: from 1/16 to 4."""


def updates_to_reach(
    target: float,
    batch: int,
    rates: list[float] = RATES,
    seeds: int = 3,
    most: int = 3000,
) -> dict[float, float]:
    """A fleet's updates until the loss on all training images is `target` or less.

    For each rate the median over `seeds` starts; infinity for the rates that had not
    arrived when the fastest had. Batches are drawn with replacement, the same for all
    rates. The loss is looked at whenever the updates have grown by 5 %.
    """
    images, labels = digits_here("train")
    fleet = Fleet([digits_network(seed) for _ in rates for seed in range(seeds)])
    of_members = torch.tensor(rates).repeat_interleave(seeds)
    dice = torch.Generator().manual_seed(batch)
    reached = torch.full((len(of_members),), torch.inf)
    update, look = 0, 1
    while update < most and reached.view(-1, seeds).median(1).values.isinf().all():
        update += 1
        mine = torch.randint(len(images), (seeds, batch), generator=dice)
        mine = mine.repeat(len(rates), 1)
        fleet.step(images[mine], labels[mine], of_members)
        if update >= look:
            arrived = (fleet.losses(images, labels) <= target) & reached.isinf()
            reached[arrived] = update
            look = max(update + 1, int(update * 1.05))
    medians = reached.view(len(rates), seeds).median(1).values
    return dict(zip(rates, medians.tolist(), strict=True))
