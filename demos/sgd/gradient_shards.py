"""The gradient of a batch from the gradients of its shards: in space, and in time.

Run:      python demos/sgd/gradient_shards.py --sizes 48 16
Look for: weighted by the sizes, the shards' gradients give the batch's gradient, up to
          rounding. Their plain mean does so for equal shards only. It makes no
          difference whether shards are computed side by side or one after the other.
Try:      --sizes 16 16 16 16, and then --sizes 61 1 1 1. In an equal cut all agrees;
          in the other one sample weighs as much as sixty-one.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import sleep

import torch
from torch import Tensor, nn

from demos.sgd.parts.digits_network import digits_here, digits_network, flat_gradient
from sidebyside import Timeline, at_least, span
from sidebyside.programs import run_program

Shard = tuple[Tensor, Tensor]  # images, labels


def cut_into_shards(images: Tensor, labels: Tensor, sizes: list[int]) -> list[Shard]:
    """The first sum(sizes) images and their labels, in shards of these sizes."""
    end = sum(sizes)
    return list(zip(images[:end].split(sizes), labels[:end].split(sizes), strict=True))


def slow_gradient(model: nn.Module, name: str, shard: Shard) -> Tensor:
    """A shard's gradient, on a device that needs 5 ms for each image: it sleeps."""
    with span(name):
        sleep(0.005 * len(shard[1]))
        return flat_gradient(model, *shard)


def gradients_in_space(model: nn.Module, shards: list[Shard]) -> list[Tensor]:
    """All shards side by side, one worker (a thread) for each."""
    with ExitStack() as stack:  # in one pool, a worker that is through takes another
        workers = [stack.enter_context(ThreadPoolExecutor(1)) for _ in shards]
        jobs = [
            worker.submit(slow_gradient, model, f"shard {number}", shard)
            for number, (worker, shard) in enumerate(zip(workers, shards, strict=True))
        ]
        return [job.result() for job in jobs]


def gradients_in_time(model: nn.Module, shards: list[Shard]) -> list[Tensor]:
    """One shard after the other, by one worker."""
    return [
        slow_gradient(model, f"shard {number}", shard)
        for number, shard in enumerate(shards)
    ]


def weighted_by_size(gradients: list[Tensor], sizes: list[int]) -> Tensor:
    """The gradient of the batch: each shard counts as often as it has samples."""
    return sum(size * g for size, g in zip(sizes, gradients, strict=True)) / sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=at_least(1, 100), nargs="+", default=[48, 16])
    sizes = parser.parse_args().sizes
    if len(sizes) > 8:
        parser.error("argument --sizes: must be from 1 to 8 numbers")

    images, labels = digits_here("train")
    for name, number in ("32 bit", torch.float32), ("64 bit", torch.float64):
        model, some = digits_network().to(number), images.to(number)
        shards = cut_into_shards(some, labels, sizes)
        batch = flat_gradient(model, some[: sum(sizes)], labels[: sum(sizes)])
        parts = [flat_gradient(model, *shard) for shard in shards]
        off = (sum(parts) / len(parts) - batch).abs().max()
        weighted_off = (weighted_by_size(parts, sizes) - batch).abs().max()
        print(f"{name}  mean of the shards is off by {off:.1e},", end="  ")
        print(f"the mean weighted by size by {weighted_off:.1e}")
    for compute in gradients_in_space, gradients_in_time:
        with Timeline() as timeline:
            compute(digits_network(), cut_into_shards(images, labels, sizes))
        print(f"\n{compute.__name__} (simulated: each image takes 5 ms)")
        print(timeline.text())


if __name__ == "__main__":
    run_program(main)
