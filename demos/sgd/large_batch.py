"""Sixteen times the batch: scale the learning rate, and warm up, or not?

Run:      python demos/sgd/large_batch.py --base-rate 0.15
Look for: with the small batch's rate the large batch makes too few steps to get far.
          With sixteen times the rate it gets as far, as long as that rate is stable.
          Near the edge a warm-up decides; well below it, it makes no difference.
Try:      --base-rate 0.1. A milder rate: is the warm-up worth anything?
          --base-rate 0.3. Scaled, that is too much: not even the warm-up helps.
"""

import argparse
from collections.abc import Callable

import torch

from demos.sgd.parts.digits_network import digits_here, digits_network
from demos.sgd.parts.fleets import Fleet
from sidebyside import at_least, between
from sidebyside.programs import run_program

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
    """Percent of the held-out images that networks get wrong: rates x seeds."""
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
    """The mean, and the half width of its 95 % interval over the seeds."""
    return values.mean().item(), (2 * values.std() / len(values) ** 0.5).item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-rate", type=between(0.001, 10), default=0.15)
    parser.add_argument("--seeds", type=at_least(2, 100), default=12)
    args = parser.parse_args()
    torch.set_num_threads(1)

    print(f"wrong of the held-out images after {EPOCHS} epochs, {args.seeds} seeds")
    print(f"{'':<24} {'batch':>6} {'updates':>8} {'wrong in %':>18}")
    for name, (batch, rate) in large_batch_rates(args.base_rate).items():
        mean, half = mean_and_interval(
            errors_after_epochs(batch, [rate], args.seeds)[0]
        )
        updates = EPOCHS * (len(digits_here("train")[0]) // batch)
        print(f"{name:<24} {batch:>6} {updates:>8} {mean:>11.1f} ± {half:.1f}")


if __name__ == "__main__":
    run_program(main)
