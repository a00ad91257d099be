"""Lesson 09: replicas in threads and in processes train as one model does.

Every sentence in bold of the lesson is a cell whose output is compared, or a test here;
that every exhibit misbehaves is such a cell.
"""

import copy

import pytest
import torch
from torch.nn import functional as F

from parallel_by_hand.data_parallel.data_parallel_processes import (
    train_beside_one_process,
)
from parallel_by_hand.data_parallel.data_parallel_threads import (
    ThreadedReplicas,
    call_in_threads,
    call_one_by_one,
    largest_difference,
    make_digit_model,
)
from sidebyside import load_digits, run_ranks

CPU = torch.device("cpu")


@pytest.mark.parametrize("run", [call_in_threads, call_one_by_one])
@pytest.mark.parametrize(("replicas", "batch"), [(1, 64), (2, 64), (3, 65), (8, 60)])
def test_replicas_in_threads_train_as_one_model_after_every_step(replicas, batch, run):
    images, labels = load_digits("train")
    alone = make_digit_model().double()
    together = ThreadedReplicas(copy.deepcopy(alone), [CPU] * replicas, run=run)
    sgd = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(5):
        x = images[step * batch : (step + 1) * batch].double()
        y = labels[step * batch : (step + 1) * batch]
        sgd.zero_grad()
        loss = F.cross_entropy(alone(x), y)
        loss.backward()
        sgd.step()
        assert together.step(x, y) == pytest.approx(loss.item(), abs=1e-12)
        assert largest_difference(alone, together.replicas[0]) < 1e-13


@pytest.mark.parametrize(("ranks", "batch"), [(1, 64), (2, 64), (2, 65), (3, 64)])
def test_ranks_train_as_one_process_after_every_step(ranks, batch):
    arguments = train_beside_one_process, 5, batch
    for rows in run_ranks(*arguments, world_size=ranks):
        for distance, equal, sent in rows:
            assert distance <= 1e-6
            assert equal, "bit for bit"
            assert sent == 19_240
