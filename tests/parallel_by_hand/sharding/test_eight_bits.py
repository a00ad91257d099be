"""Eight bits with a scale: what is rounded, by how much, and what travels."""

import pytest
import torch
import torch.distributed as dist

from parallel_by_hand.sharding.eight_bits import (
    EIGHT_BITS,
    bytes_of_gather,
    gather_in_eight_bits,
    scale_to_eight_bits,
)
from sidebyside import run_ranks


@pytest.mark.parametrize("format", EIGHT_BITS)
@pytest.mark.parametrize("block", [None, 8])
def test_each_number_is_off_by_at_most_half_a_step_of_its_format(format, block):
    torch.manual_seed(0)
    numbers = torch.randn(16, 64)
    scaled = scale_to_eight_bits(numbers, format, block)
    assert scaled.values.dtype == EIGHT_BITS[format] and scaled.values.is_contiguous()
    assert scaled.values.float().abs().max() == torch.finfo(EIGHT_BITS[format]).max
    half = torch.finfo(EIGHT_BITS[format]).eps / 2
    close = {"rtol": half, "atol": scaled.scale.max().item()}  # below the smallest
    torch.testing.assert_close(scaled.to_float(), numbers, **close)


def test_zeros_stay_zeros():
    zeros = torch.zeros(2, 4)
    assert torch.equal(scale_to_eight_bits(zeros, block=2).to_float(), zeros)


def gathered() -> tuple[torch.Tensor, list[tuple[int, float]]]:
    shard = torch.arange(4.0) + 4 * dist.get_rank()
    sizes = [bytes_of_gather(kind, 600) for kind in ("float32", "bfloat16", "e4m3")]
    return gather_in_eight_bits(shard), sizes


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_gather_in_eight_bits_sends_a_byte_for_each_number_and_a_scale(ranks):
    for whole, sizes in run_ranks(gathered, world_size=ranks):
        exact = torch.arange(4.0 * ranks)
        torch.testing.assert_close(whole, exact, rtol=1 / 16, atol=0.1)
        sent, errors = zip(*sizes, strict=True)
        numbers = 600 * (ranks - 1) // ranks
        scale = 2 * (ranks - 1) * 4 // ranks
        assert sent == (4 * numbers, 2 * numbers, numbers + scale)
        assert errors[0] == 0 < errors[1] < errors[2] < 0.05
