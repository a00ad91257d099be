"""Eight-bit floating point: a scale for a tensor or for each block, and its error.

The formats are those of Micikevicius et al., FP8 Formats for Deep Learning, 2022: e4m3
has 4 bits of exponent and 3 of fraction, e5m2 has 5 and 2. Products of the rounded
numbers are added up in float32; tensor cores may add more coarsely.
"""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel_by_hand.sharding.sharding_meter import ShardingMeter
from sidebyside import device

EIGHT_BITS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


class ScaledNumbers(NamedTuple):
    """`values` in 8 bits, times `scale`: one for each block, or one for all."""

    values: Tensor
    scale: Tensor

    def to_float(self) -> Tensor:
        blocks = self.values.float().unflatten(-1, (self.scale.shape[-1], -1))
        return (blocks * self.scale.unsqueeze(-1)).flatten(-2)


def scale_to_eight_bits(
    numbers: Tensor, format: str = "e4m3", block: int | None = None
) -> ScaledNumbers:
    """Each block's largest number becomes the largest of the format.

    A block is so many neighbours in the last dimension, which it must divide; `None`:
    the whole tensor has one scale. A block of zeros has the scale 1.
    """
    dtype = EIGHT_BITS[format]
    blocks = numbers.unflatten(-1, (-1, block or numbers.shape[-1]))
    largest = blocks.abs().amax(-1, keepdim=True)
    if block is None:
        largest = largest.amax().expand_as(largest)
    scale = largest / torch.finfo(dtype).max
    scale = torch.where(scale == 0, 1.0, scale)
    values = (blocks / scale).to(dtype).flatten(-2)
    return ScaledNumbers(values, scale.squeeze(-1))


def error_of_product(
    x: Tensor, weight: Tensor, way: str, block: int | None = None, skip: int = 0
) -> float:
    """The error of `x @ weight.T`, relative to the exact product's length.

    `way` is "bfloat16" or a format of eight bits; `block` as in the function above. The
    first `skip` rows are rounded with the others, and their products do not count.
    """
    exact = x.double() @ weight.double().T
    if way == "bfloat16":
        parts = [t.bfloat16().float() for t in (x, weight)]
    else:
        parts = [scale_to_eight_bits(t, way, block).to_float() for t in (x, weight)]
    ours = (parts[0] @ parts[1].T).double()
    return ((ours - exact)[skip:].norm() / exact[skip:].norm()).item()


def gather_in_eight_bits(shard: Tensor, format: str = "e4m3") -> Tensor:
    """All ranks' shards, flat and equal in length, rounded to 8 bits on their way.

    One number is all-reduced, the largest of all, so that all shards have one scale.
    A rank gets a byte for each number. gloo has no 8-bit floats: bytes travel.
    """
    largest = shard.abs().amax().float()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    scale = largest / torch.finfo(EIGHT_BITS[format]).max
    values = (shard / scale).to(EIGHT_BITS[format]).view(torch.uint8)
    whole = values.new_empty(dist.get_world_size() * len(values))
    dist.all_gather_single(whole, values)
    return whole.view(EIGHT_BITS[format]).float() * scale


def bytes_of_gather(dtype: str, numbers: int = 20_000) -> tuple[int, float]:
    """Runs in each rank: bytes that it sends to gather its shard of so many numbers,
    and the error of what has been gathered."""
    ranks = dist.get_world_size()
    whole = torch.randn(numbers, generator=torch.Generator().manual_seed(0)).to(
        device()
    )
    shard = whole.chunk(ranks)[dist.get_rank()]
    with ShardingMeter(nn.Identity()) as meter:
        if dtype in EIGHT_BITS:
            got = gather_in_eight_bits(shard, dtype)
        else:
            rounded = shard.to(getattr(torch, dtype))
            got = rounded.new_empty(numbers)
            dist.all_gather_single(got, rounded)
    error = (got.float() - whole).norm() / whole.norm()
    return meter.sent().total(), error.item()
