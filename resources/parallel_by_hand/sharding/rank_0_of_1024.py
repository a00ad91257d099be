"""One process that poses as rank 0 of many."""

# `fully_shard` gives the module back, as torch types do not say.
# pyright: reportAttributeAccessIssue=false

import torch
import torch.distributed as dist
from torch import nn


def make_language_model(layers: int, width: int, vocabulary: int) -> nn.Sequential:
    """A GPT for rank 0 of 1024, without its order of work: 12 h^2 for each block."""

    def block() -> nn.Sequential:
        sizes = (width, 3 * width), (width, width), (width, 4 * width)
        linear = [nn.Linear(*size) for size in (*sizes, (4 * width, width))]
        return nn.Sequential(nn.LayerNorm(width), *linear, nn.LayerNorm(width))

    blocks = [block() for _ in range(layers)]
    return nn.Sequential(nn.Embedding(vocabulary, width), *blocks)


def kept_by_rank_0(
    ranks: int, layers: int = 36, width: int = 4096, vocabulary: int = 51_200
) -> tuple[int, int]:
    """Numbers of the whole model, and those that rank 0 keeps under FSDP2."""
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        with torch.device("meta"):
            model = make_language_model(layers, width, vocabulary)
        for unit in model:
            fully_shard(unit)
        parameters = list(fully_shard(model).parameters())
    finally:
        dist.destroy_process_group()
    kept = sum(p.to_local().numel() for p in parameters)
    return sum(p.numel() for p in parameters), kept
