"""The two small models of this group, and their gradients as one flat vector."""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sidebyside import device, load_digits


@cache  # read once; nobody changes them
def digits_here(part: str) -> tuple[Tensor, Tensor]:
    """The digits' images and labels of `part`, on the GPU where there is one."""
    images, labels = load_digits(part)
    return images.to(device()), labels.to(device())


def digits_softmax() -> nn.Module:
    """One linear layer, 650 parameters, all 0: the loss is convex in them."""
    model = nn.Linear(64, 10)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model.to(device())


def digits_network(seed: int = 0) -> nn.Module:
    """One hidden layer of 16 units, 1,210 parameters; each seed has its own start.

    Made without touching torch's global generator: a lesson draws from it, too.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
    return model.to(device())


def flat_gradient(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the mean loss of these images: all parameters in one vector."""
    loss = F.cross_entropy(model(images), labels)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients])
