"""Ranks train as one process would that holds all models."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.utils import vector_to_parameters

from parallel_by_hand.decentralised.local_sgd import (
    OuterMomentum,
    average_models,
    drift,
    flat_parameters,
    local_batches,
    local_step,
    train_local_sgd,
)
from parallel_by_hand.sgd.digits_network import (
    digits_network,
)
from sidebyside import run_ranks


def train_all_in_one_process(ranks: int, every: int, steps: int) -> torch.Tensor:
    """The oracle: the mean model after each step."""
    models = [digits_network() for _ in range(ranks)]
    batches = [local_batches(rank, ranks, steps) for rank in range(ranks)]
    means = []
    for step in range(steps):
        for model, own in zip(models, batches, strict=True):
            local_step(model, own[step])
        mean = torch.stack([flat_parameters(model) for model in models]).mean(0)
        if (step + 1) % every == 0 or step + 1 == steps:
            for model in models:
                vector_to_parameters(mean.clone(), model.parameters())
        means.append(mean)
    return torch.stack(means)


@pytest.mark.parametrize(("ranks", "every"), [(1, 3), (2, 1), (3, 4), (4, 7)])
def test_ranks_train_as_one_process_would_and_end_equal(ranks, every):
    runs = run_ranks(train_local_sgd, every, 10, world_size=ranks)
    oracle = train_all_in_one_process(ranks, every, 10)
    mean = torch.stack([run.history for run in runs]).mean(0)[1:]
    torch.testing.assert_close(mean, oracle, atol=1e-5, rtol=0)
    for run in runs:
        assert torch.equal(run.history[-1], runs[0].history[-1])


def test_ranks_drift_apart_between_meetings_and_meet_at_the_end():
    runs = run_ranks(train_local_sgd, 6, 14, world_size=3)
    apart = drift(runs)
    at_meetings = [0, 6, 12, 14]
    assert apart[at_meetings].max() < 1e-6
    assert all(apart[step] > 1e-3 for step in range(15) if step not in at_meetings)


def outer_step_beside_mean() -> tuple:
    """Runs in each rank: ends of both, and whether start and model share storage."""
    ends = []
    for meeting in (average_models, None):
        model = digits_network()
        meet = meeting or OuterMomentum(model, rate=1.0, momentum=0.0)
        for step, mine in enumerate(local_batches(dist.get_rank(), 3, 9), start=1):
            local_step(model, mine)
            if step % 3 == 0:
                meet(model)
        ends.append(flat_parameters(model).cpu())
    parts = {p.untyped_storage().data_ptr() for p in model.parameters()}
    return *ends, meet.start.untyped_storage().data_ptr() in parts


def test_an_outer_step_of_rate_1_without_momentum_is_the_mean_of_the_models():
    for mean, outer, shared in run_ranks(outer_step_beside_mean, world_size=3):
        torch.testing.assert_close(mean, outer, atol=1e-5, rtol=0)
        assert not shared
