"""Real ranks compute the unsplit model's gradients, whatever the schedule."""

import random
from itertools import pairwise

import pytest
import torch
from torch import nn

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.pipeline.pipeline_stages import Pipeline, split_into_stages
from parallel_by_hand.pipeline.schedule_rules import peak_activations
from parallel_by_hand.pipeline.schedules import gpipe, interleaved
from parallel_by_hand.pipeline.torch_schedules import TORCH_SCHEDULES, torch_schedule
from sidebyside import run_ranks
from tests.parallel_by_hand.pipeline.legal_schedules import MADE, random_schedule


def make_pipeline_model() -> nn.Sequential:
    torch.manual_seed(0)
    sizes = [8, 16, 5, 16, 16, 7, 16, 12, 3]  # every message has another shape
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(sizes))
    )


def pipeline_batches(count: int):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield (
            torch.randn(24, 8, generator=generator),
            torch.randn(24, 3, generator=generator),
        )


def train_pipelines_of_ranks(schedules: list) -> list[tuple]:
    """Runs in each rank: three steps of SGD with every schedule, in one launch."""
    found = []
    for schedule in schedules:
        stages = split_into_stages(make_pipeline_model(), schedule)
        pipeline = Pipeline(schedule, stages, nn.functional.mse_loss)
        parameters = [p for module in stages.values() for p in module.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        steps = []
        for inputs, targets in pipeline_batches(3):
            optimizer.zero_grad()
            with KeptBytes(*stages.values()) as kept:
                loss = pipeline.step(inputs, targets)
            gradients = {
                stage: [p.grad.clone() for p in module.parameters()]
                for stage, module in stages.items()
            }
            steps.append((loss, gradients, pipeline.kept, kept.peak, kept.now))
            optimizer.step()
        found.append(steps)
    return found


def train_without_pipeline() -> list[tuple[float, list[torch.Tensor]]]:
    """The same steps with the model in one piece."""
    model, steps = make_pipeline_model(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in pipeline_batches(3):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        steps.append((loss.item(), [p.grad.clone() for p in model.parameters()]))
        optimizer.step()
    return steps


def layers_of_each_rank(layers: list[int]) -> list[int]:
    """Runs in each of two ranks: how many layers its stage has."""
    stages = split_into_stages(make_pipeline_model(), gpipe(2, 2), layers)
    return [len(stage) for stage in stages.values()]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_any_legal_schedule_gives_the_gradients_of_the_unsplit_model(ranks):
    dice = random.Random(ranks)
    schedules = [make(ranks, m) for make in MADE for m in (1, 4)]
    schedules += [interleaved(ranks, 4)]
    schedules += [random_schedule(dice, ranks, 6, k) for k in ["FB", "FBW"] * 2]
    if ranks > 1:
        schedules += [torch_schedule(name, ranks, 8) for name in TORCH_SCHEDULES]
    results = run_ranks(train_pipelines_of_ranks, schedules, world_size=ranks)
    whole = train_without_pipeline()
    for number, schedule in enumerate(schedules):
        of_ranks = [rank[number] for rank in results]
        for step, (loss, gradients) in enumerate(whole):
            losses = [rank[step][0] for rank in of_ranks if rank[step][0] is not None]
            assert losses == [pytest.approx(loss, abs=1e-6)]
            by_stage = {}
            for rank in of_ranks:
                by_stage |= rank[step][1]
            flat = [g for stage in sorted(by_stage) for g in by_stage[stage]]
            torch.testing.assert_close(flat, gradients, rtol=0, atol=1e-6)
        kept = [rank[0][2] for rank in of_ranks]
        assert kept == peak_activations(schedule)
        assert all(rank[0][4] == 0 for rank in of_ranks), "all was let go"


def test_layers_are_dealt_as_asked():
    assert run_ranks(layers_of_each_rank, [3, 5], world_size=2) == [[3], [5]]
