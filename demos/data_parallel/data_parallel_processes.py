"""Train digits with several replicas in processes, one message per step.

Run:      python demos/data_parallel/data_parallel_processes.py --ranks 2
          torchrun --nproc-per-node 2 demos/data_parallel/data_parallel_processes.py
Look for: every rank sends its gradients, and no weights. After every step all ranks
          hold the same weights, bit for bit, within rounding of one process.
Try:      --batch 65, which two ranks cannot share equally. Each rank weighs its loss
          with the number of its images, and all stays right.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from demos.data_parallel.data_parallel_threads import (
    largest_difference,
    make_digit_model,
)
from sidebyside import at_least, device, load_digits, run_ranks, span
from sidebyside.programs import run_program


def sum_gradients_over_ranks(model: nn.Module) -> int:
    """Give every rank the sum of all gradients, in one message; its bytes."""
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=at_least(1, 64), default=2)
    parser.add_argument("--steps", type=at_least(1, 1000), default=8)
    parser.add_argument("--batch", type=at_least(1, 1415), default=64, help="of all")
    args = parser.parse_args()
    arguments = train_beside_one_process, args.steps, args.batch
    rows = run_ranks(*arguments, world_size=args.ranks)[0]
    if os.environ.get("RANK", "0") == "0":  # under torchrun every rank is here
        for step, (distance, equal, sent) in enumerate(rows, 1):
            print(f"step {step:3}  from one process {distance:.0e}  ", end="")
            print(f"replicas equal: {equal}  message: {sent:,} bytes")


if __name__ == "__main__":
    run_program(main)
