"""The gradient of a batch from the gradients of its shards: in space, and in time."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import sleep

from torch import Tensor, nn

from parallel_by_hand.sgd.digits_network import flat_gradient
from sidebyside import span

Shard = tuple[Tensor, Tensor]  # images, labels


def cut_into_shards(images: Tensor, labels: Tensor, sizes: list[int]) -> list[Shard]:
    """The first sum(sizes) images and their labels, in shards of these sizes."""
    end = sum(sizes)
    return list(zip(images[:end].split(sizes), labels[:end].split(sizes), strict=True))


def _slow_gradient(model: nn.Module, name: str, shard: Shard) -> Tensor:
    """A shard's gradient, on a device that needs 5 ms for each image: it sleeps."""
    with span(name):
        sleep(0.005 * len(shard[1]))
        return flat_gradient(model, *shard)


def gradients_in_space(model: nn.Module, shards: list[Shard]) -> list[Tensor]:
    """All shards side by side, one worker (a thread) for each."""
    with ExitStack() as stack:  # in one pool, a worker that is through takes another
        workers = [stack.enter_context(ThreadPoolExecutor(1)) for _ in shards]
        jobs = [
            worker.submit(_slow_gradient, model, f"shard {number}", shard)
            for number, (worker, shard) in enumerate(zip(workers, shards, strict=True))
        ]
        return [job.result() for job in jobs]


def gradients_in_time(model: nn.Module, shards: list[Shard]) -> list[Tensor]:
    """One shard after the other, by one worker."""
    return [
        _slow_gradient(model, f"shard {number}", shard)
        for number, shard in enumerate(shards)
    ]


def weighted_by_size(gradients: list[Tensor], sizes: list[int]) -> Tensor:
    """The gradient of the batch: each shard counts as often as it has samples."""
    weighted = [size * g for size, g in zip(sizes, gradients, strict=True)]
    return sum(weighted[1:], weighted[0]) / sum(sizes)
