"""Lesson 09: replicas in threads and in processes train as one model does.

Every planted mistake is tested to misbehave; the check tells a right repair. Every
sentence in bold of the lesson is a cell whose output is compared, or a test here.
"""

import copy

import pytest
import torch
from torch.nn import functional as F

from parallel_by_hand.data_parallel import museum_meter
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
from parallel_by_hand.data_parallel.exhibits import EXHIBITS
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


def apart(found) -> float:
    return (torch.stack(found.models) - found.models[0]).abs().max().item()


def test_every_exhibit_misbehaves_as_its_meter_says():
    ranks = 3
    codes = {name: museum_meter.repaired_exhibit(name, {}) for name in EXHIBITS}
    found = museum_meter.look_at_exhibits(codes, ranks)
    assert abs(found["F"].said[0] - museum_meter.exhibit_accuracy_alone()) > 0.002
    assert found["A"].storages == 1
    lengths = {}
    for name in "ABCDEG":
        first = found[name].models[0]
        alone = museum_meter.train_exhibit_alone(name, ranks, first[0])
        assert (first - alone)[-1].norm() > 0.1 * (alone[-1] - alone[0]).norm()
        lengths[name] = (
            (first[1] - first[0]).norm() / (alone[1] - alone[0]).norm()
        ).item()
    assert {name for name in "ABCDEG" if apart(found[name]) > 0.01} == {"C", "E"}
    assert lengths["A"] == pytest.approx(ranks) == lengths["B"]
    starts = [model[0] for model in found["C"].models]
    assert not torch.equal(starts[0], starts[1])
