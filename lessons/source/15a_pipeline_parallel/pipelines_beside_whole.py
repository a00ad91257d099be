"""What the ranks of test_lesson.py run: here, so that they import little else."""

from itertools import pairwise

import torch
from torch import nn

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.pipeline.pipeline_stages import Pipeline, split_into_stages
from parallel_by_hand.pipeline.schedules import gpipe


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
    return [
        len(stage)
        for stage in split_into_stages(
            make_pipeline_model(), gpipe(2, 2), layers
        ).values()
    ]
