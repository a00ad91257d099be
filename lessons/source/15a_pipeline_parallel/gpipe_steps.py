"""What the check of lesson 15a runs in each rank: one stage's part of a step."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sidebyside import device


def _stages_and_batch(microbatches: int, ranks: int) -> tuple:
    """The same in every process: a stage for each rank, inputs and targets."""
    torch.manual_seed(15)
    stages = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(ranks)]
    return stages, *torch.randn(2, microbatches, 5, 4)


def try_gpipe_step(gpipe_step, microbatches: int) -> tuple[Tensor | None, str]:
    """Runs in each rank: the gradient of its stage's weight, and F and B in order."""
    stages, *batch = _stages_and_batch(microbatches, dist.get_world_size())
    stage = stages[dist.get_rank()].to(device())
    order = []
    stage.register_forward_hook(lambda *_: order.append("F"))
    stage[0].weight.register_hook(lambda _: order.append("B"))
    inputs, targets = ([part.to(device()) for part in whole] for whole in batch)
    gpipe_step(stage, inputs, targets)
    gradient = stage[0].weight.grad
    return None if gradient is None else gradient.cpu(), "".join(order)


def gradients_in_one_piece(microbatches: int, ranks: int) -> list[Tensor]:
    """The same gradients, of the unsplit model and the whole batch."""
    stages, inputs, targets = _stages_and_batch(microbatches, ranks)
    nn.functional.mse_loss(nn.Sequential(*stages)(inputs), targets).backward()
    return [stage[0].weight.grad for stage in stages]
