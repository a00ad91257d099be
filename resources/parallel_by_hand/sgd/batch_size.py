"""Training in batches of different size: updates, bytes and samples a second."""

from statistics import median
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from parallel_by_hand.sgd.digits_network import digits_here


def loss_along_updates(
    model: nn.Module, batch: int, epochs: int, rate: float
) -> list[tuple[int, float, float]]:
    """For a batch size: (updates, seconds, loss) whenever updates have grown by 15 %.

    The seconds are of the updates alone: looking at the loss stops the clock.
    """
    images, labels = digits_here("train")
    sgd, dice = torch.optim.SGD(model.parameters(), lr=rate), torch.Generator()
    decks = [torch.randperm(len(images), generator=dice) for _ in range(epochs)]
    batches = [some for deck in decks for some in deck.split(batch)]
    found, seconds, look = [], 0.0, 1
    for update, mine in enumerate(batches, start=1):
        began = perf_counter()
        sgd.zero_grad()
        F.cross_entropy(model(images[mine]), labels[mine]).backward()
        sgd.step()
        seconds += perf_counter() - began
        if update >= look or update == len(batches):
            look = max(update + 1, int(update * 1.15))
            with torch.no_grad():
                loss = F.cross_entropy(model(images), labels).item()
            found.append((update, seconds, loss))
    return found


def kept_for_backward(model: nn.Module, images: Tensor, labels: Tensor) -> int:
    """For each batch size: bytes of the tensors that autograd keeps until backward."""
    kept = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes  # a tensor kept twice counts once
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        loss = F.cross_entropy(model(images), labels)
    del loss  # until here it held on to them, so that no address was used again
    return sum(kept.values())


def samples_per_second(model: nn.Module, batch: int, rounds: int = 15) -> float:
    """For a batch size: the median throughput of forward, backward and update."""
    images, labels = (tensor[:batch] for tensor in digits_here("train"))
    sgd, seconds = torch.optim.SGD(model.parameters(), lr=0.01), []
    for _ in range(rounds):
        began = perf_counter()
        sgd.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        sgd.step()
        loss.item()  # on a GPU: wait until it is done
        seconds.append(perf_counter() - began)
    return batch / median(seconds[1:])
