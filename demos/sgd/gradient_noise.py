"""How noisy is the gradient of a mini-batch, and how large a batch is worth having?

Run:      python demos/sgd/gradient_noise.py --target 0.6
Look for: four times the batch, half the noise. The noise scale comes from gradients of
          8 and of 64 images alone. The last table tests it: below the noise scale a
          larger batch saves updates in proportion, far above it saves next to none.
Try:      --target 0.25. Nearer to the optimum the gradient is small and the noise is
          not: the noise scale grows, and so does the batch that is worth having.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from demos.sgd.parts.digits_network import digits_here, digits_network, flat_gradient
from demos.sgd.parts.fleets import updates_to_reach
from sidebyside import between
from sidebyside.programs import run_program

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
    """Mean |g|² of one shard's gradient and of the batch's, over a whole training.

    The network is trained with the batch's gradient, the mean over the shards, until
    the loss of all images is `target`.
    """
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
    """For each batch size (updates, rate) of the learning rate that needs fewest."""
    return {
        batch: min((n, rate) for rate, n in updates_to_reach(target, batch).items())
        for batch in sizes
    }


def fit_knee(updates: dict[int, float]) -> tuple[float, float]:
    """(fewest, knee) of updates = fewest * (1 + knee / batch), fitted to the logs.

    The form is McCandlish et al.'s. At a batch of `knee` it takes twice the fewest.
    """
    batches, counts = np.array(list(updates)), np.array(list(updates.values()))
    knees = np.geomspace(0.1, 10_000, 2000)[:, None]
    ratios = np.log(counts) - np.log(1 + knees / batches)
    best = ratios.std(axis=1).argmin()
    return float(np.exp(ratios[best].mean())), float(knees[best, 0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target", type=between(0.2, 2), default=0.6, help="loss to reach"
    )
    target = parser.parse_args().target
    torch.set_num_threads(1)

    print(f"{'batch':>6} {'spread of its gradient':>23}")
    for batch in 1, 4, 16, 64, 256:
        print(f"{batch:>6} {gradient_spread(digits_network(), batch):>23.3f}")
    print("\nsimple noise scale on the way, from batches of 8 and of 64")
    for rate in 0.5, 1.0:
        squares = squared_norms_in_training(rate, target)
        scale = noise_scale_from_two_sizes(8, squares[0], 64, squares[1])
        print(f"  learning rate {rate}: {scale:.0f}")
    header = f"{'batch':>6} {'best rate':>10} {f'updates to a loss of {target}':>27}"
    print(f"\n{header}", flush=True)
    tuned = fewest_updates(target, (4, 16, 64, 256, 1415))
    for batch, (count, rate) in tuned.items():
        print(f"{batch:>6} {rate:>10} {count:>27.0f}")
    updates = {batch: count for batch, (count, _) in tuned.items()}
    print(f"the knee is at a batch of {fit_knee(updates)[1]:.0f}")


if __name__ == "__main__":
    run_program(main)
