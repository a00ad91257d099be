"""One step of a small network through a pipeline, and what it costs each rank."""

import torch
from torch import nn

from parallel_by_hand.memory.kept_bytes import KeptBytes
from parallel_by_hand.pipeline.pipeline_stages import Pipeline, split_into_stages
from parallel_by_hand.pipeline.schedules import Schedule
from sidebyside import MessageMeter

WIDTH = SAMPLES = 64


def _make_layers(count: int) -> nn.Sequential:
    """Equal layers, the same in every process."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)]
    return nn.Sequential(*layers)


def step_through_pipeline(
    schedule: Schedule, layers: int = 8, recompute: bool = False
) -> dict:
    """Runs in each rank: one measured step; loss, gradients, and bytes of each kind.

    Only the rank of the last stage knows the loss. "gradients" are lists, by stage.
    "activations" are the most bytes
    that autograd kept at any time for the way back, "sent" those of all messages.
    """
    generator = torch.Generator().manual_seed(1)
    batch, targets = torch.randn(2, SAMPLES, WIDTH, generator=generator)
    stages = split_into_stages(_make_layers(layers), schedule)
    pipeline = Pipeline(schedule, stages, nn.functional.mse_loss, recompute)
    parameters = [p for stage in stages.values() for p in stage.parameters()]
    adam = torch.optim.Adam(parameters)
    with KeptBytes(*stages.values()) as kept, MessageMeter() as meter:
        loss = pipeline.step(batch, targets)
    adam.step()
    gradients = {s: [p.grad.cpu() for p in m.parameters()] for s, m in stages.items()}
    state = [tensor for one in adam.state.values() for tensor in one.values()]
    return {
        "loss": loss,
        "gradients": gradients,
        "sent": meter.bytes_sent,
        "parameters": sum(p.nbytes for p in parameters),
        "gradient": sum(p.grad.nbytes for p in parameters),
        "optimiser": sum(tensor.nbytes for tensor in state),
        "activations": kept.peak,
    }


def gradients_by_layer(ranks: list[dict]) -> list[torch.Tensor]:
    """The measured step's gradients, in the order of the model's layers."""
    by_stage = {s: g for rank in ranks for s, g in rank["gradients"].items()}
    return [gradient for stage in sorted(by_stage) for gradient in by_stage[stage]]
