"""Lesson 13a's batches, which take a known time, as if from a slow disk."""

from time import sleep

import torch
from torch.utils.data import DataLoader, Dataset

from parallel_by_hand.random_numbers.loader_workers import begin_worker, start_method
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


def load_slow_batches(batches: int, seconds: float, workers: int) -> DataLoader:
    """torch's loader; each of its workers prepares one batch ahead."""
    dataset = SlowBatches(batches, seconds)
    if workers == 0:
        return DataLoader(dataset, batch_size=None)
    return DataLoader(
        dataset,
        batch_size=None,  # an item is a batch already
        num_workers=workers,
        prefetch_factor=1,
        worker_init_fn=begin_worker,
        multiprocessing_context=start_method(),
    )
