"""Batches that take a known time to prepare, as if they came from a slow disk."""

from sidebyside.programs import end_with_parent

import multiprocessing
from time import sleep

import torch
from torch.utils.data import DataLoader, Dataset

from sidebyside import span


class SlowBatches(Dataset):
    """Item k is batch k, a tensor full of k, ready after `seconds`."""

    def __init__(self, batches: int, seconds: float):
        self.batches, self.seconds = batches, seconds

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, k: int) -> torch.Tensor:
        with span(f"prepare {k}"):
            sleep(self.seconds)
        return torch.full((4,), float(k))


def end_worker_with_program(worker: int) -> None:
    """A worker_init_fn: the worker ends with the program, even with a killed one.

    torch's own watch looks for a new parent. Here the parent is the forkserver, which
    lives on, because the worker holds an end of its pipe.
    """
    end_with_parent()


def load_slow_batches(batches: int, seconds: float, workers: int) -> DataLoader:
    """torch's loader; each of its workers prepares one batch ahead."""
    dataset = SlowBatches(batches, seconds)
    if workers == 0:
        return DataLoader(dataset, batch_size=None)
    method = "spawn"
    if "forkserver" in multiprocessing.get_all_start_methods():
        method = "forkserver"
        multiprocessing.set_forkserver_preload(["torch"])  # once, not in each worker
    return DataLoader(
        dataset,
        batch_size=None,  # an item is a batch already
        num_workers=workers,
        prefetch_factor=1,
        worker_init_fn=end_worker_with_program,
        multiprocessing_context=method,
    )
