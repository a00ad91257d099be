"""A split layer gives what the unsplit one gives, and sends what is promised."""

from functools import partial

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.tensor_parallel import pair_costs
from parallel_by_hand.tensor_parallel.conjugates import copy_to_ranks, sum_over_ranks
from sidebyside import run_ranks

# The pair and the naive way -----------------------------------------------------------


def gradient_by_the_librarys_function() -> float:
    from torch.distributed.nn.functional import all_reduce

    x = torch.tensor(3.0, requires_grad=True)
    all_reduce(copy_to_ranks(x) * (2, 5)[dist.get_rank()]).backward()
    return x.grad.item()


def gradient_by_hand(conjugate: bool) -> float:
    x = torch.tensor(3.0, requires_grad=True)
    copied = copy_to_ranks(x) if conjugate else x
    sum_over_ranks(copied * (2, 5)[dist.get_rank()]).backward()
    return x.grad.item()


def test_the_numbers_of_exercise_2():
    assert run_ranks(gradient_by_hand, True) == [7, 7]
    assert run_ranks(gradient_by_hand, False) == [2, 5]
    assert run_ranks(gradient_by_the_librarys_function) == [14, 14]


# What it costs ------------------------------------------------------------------------


def test_the_lessons_links_turn_the_order_round():
    fast, slow = (0.002, 1125e-9), (0.01, 11250e-9)
    seconds = partial(pair_costs.pair_seconds, work=0.9, size=40_000)
    two, eight = (seconds(n, alpha=fast[0], beta=fast[1]) for n in (2, 8))
    assert eight < two < 0.9 and 0.9 / eight == pytest.approx(2.8, abs=0.05)
    two, eight = (seconds(n, alpha=slow[0], beta=slow[1]) for n in (2, 8))
    assert 0.9 < two < eight
    all_reduces = [seconds(n, work=0, alpha=1, beta=1) for n in range(1, 9)]
    assert all_reduces == sorted(all_reduces), "they don't shrink with more ranks"
