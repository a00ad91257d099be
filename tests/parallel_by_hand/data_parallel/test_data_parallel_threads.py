"""Replicas in threads: what is frozen stays, and no error is lost."""

import pytest
import torch

from parallel_by_hand.data_parallel.data_parallel_threads import (
    ThreadedReplicas,
    call_in_threads,
    make_digit_model,
)
from sidebyside import load_digits

CPU = torch.device("cpu")


def test_a_frozen_parameter_stays_as_it_is():
    model = make_digit_model()
    model[0].bias.requires_grad_(False)
    together = ThreadedReplicas(model, [CPU] * 2)
    before = model[0].bias.clone()
    together.step(*[tensor[:8] for tensor in load_digits("train")])
    assert torch.equal(model[0].bias, before) and model[0].bias.grad is None


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        call_in_threads(lambda number: 1 // number, [1, 0])
