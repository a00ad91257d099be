"""Train on the same samples in batches of different size; count updates and bytes.

Run:      python demos/sgd/batch_size.py --epochs 4
Look for: all rows have seen the same samples. Small batches make many updates and get
          far with them; large ones compute more samples per second. What autograd keeps
          grows by the same number of bytes for each sample.
Try:      --rate 2. Which batch sizes survive it?
"""

import argparse
from statistics import median
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from demos.sgd.parts.digits_network import digits_here, digits_network
from sidebyside import at_least, between
from sidebyside.programs import run_program

SIZES = 1, 4, 16, 64, 256, 1415


def loss_along_updates(
    model: nn.Module, batch: int, epochs: int, rate: float
) -> list[tuple[int, float, float]]:
    """(updates, seconds, loss of all images) whenever the updates have grown by 15 %.

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
    """The bytes of all tensors that autograd keeps until backward."""
    kept = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes  # a tensor kept twice counts once
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        loss = F.cross_entropy(model(images), labels)
    del loss  # until here it held on to them, so that no address was used again
    return sum(kept.values())


def samples_per_second(model: nn.Module, batch: int, rounds: int = 15) -> float:
    """The median throughput of forward, backward and update."""
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=at_least(1, 1000), default=3)
    parser.add_argument("--rate", type=between(0.0001, 100), default=0.2)
    args = parser.parse_args()
    torch.set_num_threads(1)

    images, labels = digits_here("train")
    print(f"{args.epochs} x {len(images)} samples, learning rate {args.rate}")
    print(
        f"{'batch':>6} {'updates':>8} {'loss':>7} {'kept bytes':>11} {'throughput':>21}"
    )
    for batch in SIZES:
        model = digits_network()
        kept = kept_for_backward(model, images[:batch], labels[:batch])
        speed = samples_per_second(digits_network(), batch)
        updates, _, loss = loss_along_updates(model, batch, args.epochs, args.rate)[-1]
        row = f"{batch:>6} {updates:>8} {loss:>7.3f} {kept:>11}"
        print(f"{row} {speed:>11,.0f} samples/s")


if __name__ == "__main__":
    run_program(main)
