"""Replicas in processes: those that differ are found, and a rank may have no image."""

import torch
import torch.distributed as dist
from torch.nn import functional as F

from parallel_by_hand.data_parallel.data_parallel_processes import (
    replicas_agree,
    step_in_rank,
)
from parallel_by_hand.data_parallel.data_parallel_threads import (
    largest_difference,
    make_digit_model,
)
from sidebyside import device, load_digits, run_ranks


def agreement_of_a_rank() -> list[bool]:
    model = make_digit_model().to(device())
    found = [replicas_agree(model)]
    with torch.no_grad():
        model[0].bias[3] += 1e-3 * dist.get_rank()
    return [*found, replicas_agree(model)]


def test_replicas_that_differ_are_found():
    assert run_ranks(agreement_of_a_rank) == [[True, False]] * 2


def step_with_more_ranks_than_images() -> float:
    alone, replica = (make_digit_model().to(device()) for _ in range(2))
    x, y = (tensor[:2].to(device()) for tensor in load_digits("train"))
    F.cross_entropy(alone(x), y).backward()
    torch.optim.SGD(alone.parameters(), lr=0.1).step()
    step_in_rank(replica, torch.optim.SGD(replica.parameters(), lr=0.1), x, y)
    return largest_difference(alone, replica)


def test_a_rank_may_have_no_image_at_all():
    gaps = run_ranks(step_with_more_ranks_than_images, world_size=3)
    assert all(gap <= 1e-6 for gap in gaps)
