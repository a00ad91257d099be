"""The seed from which each DataLoader worker of each rank draws."""

import torch
import torch.distributed as dist

from parallel_by_hand.random_numbers.loader_workers import (
    SeedOfWorker,
    make_loader,
    start_method,
    stream,
)


def seeds_of_workers(workers: int = 2) -> dict[str, list[int]]:
    """In each rank: the seeds of its loader's workers, with two generators."""
    torch.manual_seed(2026)  # on every rank, for equal weights
    seed = stream(2026, dist.get_rank()).integers(2**32).item()
    own = torch.Generator().manual_seed(seed)
    generators = {"generator=None": None, "a generator with the rank in its seed": own}
    found = {}
    for name, generator in generators.items():
        loader = make_loader(SeedOfWorker(workers), workers, start_method())
        loader.generator = generator
        found[name] = list(loader)  # item by item, in turn from worker 0, 1, ...
    return found
