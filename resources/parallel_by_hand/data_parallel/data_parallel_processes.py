"""Replicas in processes, one message per step."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel_by_hand.data_parallel.data_parallel_threads import (
    largest_difference,
    make_digit_model,
)
from sidebyside import device, load_digits, span


def sum_gradients_over_ranks(model: nn.Module) -> int:
    """Give every process the sum of all gradients, in one message; its bytes."""
    trained = [p for p in model.parameters() if p.grad is not None]
    message = torch.cat([p.grad.flatten() for p in trained])
    dist.all_reduce(message)
    pieces = message.split([p.numel() for p in trained])
    for parameter, piece in zip(trained, pieces, strict=True):
        parameter.grad.copy_(piece.view_as(parameter))
    return message.nbytes


def step_in_rank(model: nn.Module, sgd, x: torch.Tensor, y: torch.Tensor) -> int:
    """One step on this rank's share of the batch; the bytes of its message."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    my_x, my_y = x.tensor_split(ranks)[rank], y.tensor_split(ranks)[rank]
    with span("forward"):
        loss = F.cross_entropy(model(my_x), my_y, reduction="sum") / len(y)
    with span("backward"):
        loss.backward()
    with span("all-reduce"):
        sent = sum_gradients_over_ranks(model)
    with span("update"):
        sgd.step()
        sgd.zero_grad()
    return sent


def train_beside_one_process(steps: int, batch: int) -> list[tuple]:
    """Runs in each rank: each step with the whole batch, and with our share of it."""
    alone, replica = (make_digit_model().to(device()) for _ in range(2))
    sgd_alone, sgd = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (alone, replica))
    images, labels = (tensor.to(device()) for tensor in load_digits("train"))
    rows = []
    for step in range(steps):
        drawn = (torch.arange(batch) + batch * step) % len(images)
        sgd_alone.zero_grad()
        F.cross_entropy(alone(images[drawn]), labels[drawn]).backward()
        sgd_alone.step()
        sent = step_in_rank(replica, sgd, images[drawn], labels[drawn])
        rows.append((largest_difference(alone, replica), replicas_agree(replica), sent))
    return rows


def replicas_agree(model: nn.Module) -> bool:
    """Whether all ranks hold the same parameters, bit for bit."""
    mine = nn.utils.parameters_to_vector(model.parameters()).detach()
    of_rank_0 = mine.clone()
    dist.broadcast(of_rank_0, src=0)
    differ = torch.tensor(float(not torch.equal(mine, of_rank_0)), device=mine.device)
    dist.all_reduce(differ)
    return differ.item() == 0
