"""A device counts the bytes of every tensor that lives, and refuses one too many."""

import pytest
import torch

from parallel_by_hand.memory.device_memory import DeviceFull, DeviceMemory


def test_the_device_counts_what_lives_and_no_view():
    with DeviceMemory() as memory:
        a = torch.ones(1000)
        assert memory.now == 4000
        b = a.view(10, 100).t()
        a.add_(1)
        assert memory.now == 4000
        c = a + b.reshape(-1)
        assert memory.now >= 8000
        del a, b, c
    assert memory.now == 0
    assert memory.peak >= 8000


def test_the_device_refuses_the_tensor_that_is_too_much():
    words = r"8\.00 MB are in use.*asks for 8\.00 MB"
    with pytest.raises(DeviceFull, match=words), DeviceMemory(10_000_000):
        kept = torch.zeros(2_000_000)
        torch.cat([kept])


def test_tensors_from_outside_do_not_count():
    outside = torch.ones(1000)
    with DeviceMemory() as memory:
        outside.view(10, 100).add_(1)
    assert memory.peak == 0
