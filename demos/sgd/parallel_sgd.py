"""Average the models once at the end, or the gradients at each step?

Run:      python demos/sgd/parallel_sgd.py --workers 4
Look for: on the convex problem one message per worker at the end is nearly as good as
          one at every step. For networks that start differently the average is worse
          than the best of them by far. The last lines show why: numbering the hidden
          units in another order changes no answer of a network, and spoils the average.
Try:      --workers 16. Each share is smaller, and the convex average holds.
"""

import argparse
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from demos.sgd.parts.digits_network import (
    digits_here,
    digits_network,
    digits_softmax,
    flat_gradient,
)
from sidebyside import at_least
from sidebyside.programs import run_program

BATCH, RATE = 4, 0.5  # of each worker


def worker_batches(workers: int, steps: int) -> list[list[torch.Tensor]]:
    """For each worker the indices of its batches: from its own share of the images."""
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
            _take_parallel_sgd_step(
                model, flat_gradient(model, images[mine], labels[mine])
            )
    return mean_of_models(models, make_model)


def average_gradients_each_step(model: nn.Module, batches: list) -> nn.Module:
    """One model in all workers: in each step their gradients are averaged."""
    images, labels = digits_here("train")
    for together in zip(*batches, strict=True):
        parts = [flat_gradient(model, images[i], labels[i]) for i in together]
        _take_parallel_sgd_step(model, torch.stack(parts).mean(0))
    return model


def _take_parallel_sgd_step(model: nn.Module, gradient: torch.Tensor) -> None:
    with torch.no_grad():
        weights = parameters_to_vector(model.parameters()) - RATE * gradient
        vector_to_parameters(weights, model.parameters())


def mean_of_models(models: list[nn.Module], make_model: Callable) -> nn.Module:
    """A new model whose every parameter is the mean of the models' parameters."""
    mean = make_model()
    vectors = [parameters_to_vector(model.parameters()) for model in models]
    vector_to_parameters(torch.stack(vectors).mean(0).detach(), mean.parameters())
    return mean


def in_another_order(model: nn.Module, seed: int = 0) -> nn.Module:
    """The same network with its hidden units numbered in another order."""
    other, dice = digits_network(), torch.Generator().manual_seed(seed)
    order = torch.randperm(len(model[0].bias), generator=dice)
    with torch.no_grad():
        other[0].weight.copy_(model[0].weight[order])
        other[0].bias.copy_(model[0].bias[order])
        other[2].weight.copy_(model[2].weight[:, order])
        other[2].bias.copy_(model[2].bias)
    return other


@torch.no_grad()
def held_out(model: nn.Module) -> tuple[float, float]:
    """(loss, share of wrong answers) on images that no worker has seen."""
    images, labels = digits_here("test")
    answers = model(images)
    wrong = (answers.argmax(1) != labels).float().mean().item()
    return F.cross_entropy(answers, labels).item(), wrong


def best_of(models: list[nn.Module]) -> nn.Module:
    return min(models, key=lambda model: held_out(model)[0])


def print_held_out(name: str, model: nn.Module, messages: object = "") -> None:
    loss, wrong = held_out(model)
    print(f"{name:<44} {messages:>9} {loss:>7.3f} {100 * wrong:>7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=at_least(2, 64), default=4)
    parser.add_argument("--steps", type=at_least(1, 2000), default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)

    workers, batches = range(args.workers), worker_batches(args.workers, args.steps)
    print(f"{'':<44} {'messages':>9} {'held-out loss, wrong in %':>25}")
    starts = {
        "convex": (digits_softmax, [digits_softmax() for _ in workers]),
        "network, one start": (digits_network, [digits_network() for _ in workers]),
        "network, own starts": (digits_network, [digits_network(w) for w in workers]),
    }
    for name, (make, models) in starts.items():
        average = average_models_once(models, batches, make)
        print_held_out(f"{name}: the best worker alone", best_of(models), 0)
        print_held_out(f"{name}: models averaged once", average, 1)
        each = average_gradients_each_step(make(), batches)
        print_held_out(f"{name}: gradients at each step", each, args.steps)
    trained = models[0]
    other = in_another_order(trained)
    print_held_out("a network", trained)
    print_held_out("the same, its units in another order", other)
    print_held_out(
        "the average of the two", mean_of_models([trained, other], digits_network)
    )


if __name__ == "__main__":
    run_program(main)
