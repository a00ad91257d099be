"""A seventh patient, gwen: tensor-parallel ranks that all begin with one seed."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.tensor_parallel.conjugates import sum_over_ranks
from sidebyside import load_digits


def gwen(
    one_seed: bool, neurons: int = 4, steps: int = 300
) -> tuple[list, float, Tensor]:
    """Runs in each rank: train its `neurons` of the hidden layer on digits.

    Returns the loss of all training images every 100 steps, the share of test images
    that are recognised, and this rank's part of the first matrix, (neurons, 64).
    """
    torch.manual_seed(0 if one_seed else dist.get_rank())
    first, second = nn.Linear(64, neurons), nn.Linear(neurons, 10, bias=False)
    images, labels = load_digits("train")
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.2)
    dice, losses = torch.Generator().manual_seed(1), []
    for step in range(steps + 1):
        if step % 100 == 0:
            with torch.no_grad():
                scores = sum_over_ranks(second(torch.tanh(first(images))))
            losses.append(nn.functional.cross_entropy(scores, labels).item())
        batch = torch.randint(len(images), (128,), generator=dice)
        scores = sum_over_ranks(second(torch.tanh(first(images[batch]))))
        optimizer.zero_grad()
        nn.functional.cross_entropy(scores, labels[batch]).backward()
        optimizer.step()
    images, labels = load_digits("test")
    with torch.no_grad():
        scores = sum_over_ranks(second(torch.tanh(first(images))))
    return losses, (scores.argmax(1) == labels).double().mean().item(), first.weight
