"""What the workers of a torch DataLoader draw, and seeds that keep them apart."""

# A dataset may be given attributes.
# pyright: reportAttributeAccessIssue=false

import multiprocessing
import random
import warnings
from functools import partial

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from sidebyside.programs.run_program import end_with_parent

# These workers only draw numbers, so more of them than cores do no harm.
warnings.filterwarnings("ignore", message="This DataLoader will create")


def stream(seed: int, *key: int) -> np.random.Generator:
    """A worker's stream, by its key, of all independent streams that a seed has."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


class Noise(Dataset):
    """Item i is the loader's worker that made it, and a number from each generator."""

    def __init__(self, items: int = 8):
        self.items = items
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> list[float]:
        worker = get_worker_info().id
        numbers = random.random(), np.random.random(), torch.rand(()).item()
        return [worker, *numbers, self.rng.random()]


class NoiseByItem(Dataset):
    """A loader's item i: a number that depends on seed, epoch and i, nothing else."""

    def __init__(self, items: int = 8, seed: int = 0):
        self.items, self.seed, self.epoch = items, seed, 0

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> float:
        return stream(self.seed, self.epoch, index).random()


class SeedOfWorker(Dataset):
    """Item i is the seed of the loader's worker that makes it."""

    def __init__(self, items: int):
        self.items = items

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> int:
        return get_worker_info().seed


def new_stream(worker_id: int) -> None:
    """A worker_init_fn: the dataset gets a generator of this worker and epoch."""
    worker = get_worker_info()
    worker.dataset.rng = np.random.default_rng(worker.seed)


def begin_worker(worker_id: int, init=None) -> None:
    """A worker_init_fn: the worker ends with the program, even with a killed one.

    torch's own watch looks for a new parent. Here the parent may be the forkserver,
    which lives on, because the worker holds an end of its pipe.
    """
    end_with_parent()
    if init is not None:
        init(worker_id)


def make_loader(dataset: Dataset, workers: int, method: str, init=None) -> DataLoader:
    """A DataLoader with that many workers, whose seeds follow from seed 0."""
    return DataLoader(
        dataset,
        batch_size=None,  # item by item
        num_workers=workers,
        worker_init_fn=partial(begin_worker, init=init),
        multiprocessing_context=method if workers else None,  # 0: none is started
        generator=torch.Generator().manual_seed(0),
    )


def start_method() -> str:
    """How a loader's workers start where every system can follow: never by fork."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        multiprocessing.set_forkserver_preload(["torch"])  # once, not in each worker
        return "forkserver"
    return "spawn"
