"""One process poses as rank 0 of many, and shards a model that would not fit here.

Run:      python demos/sharding/rank_0_of_1024.py
Look for: FSDP2 cuts each parameter by its rows, for 1,024 ranks, and torch reports what
          rank 0 would keep. Times 16 bytes, that is the last row of the ZeRO paper's
          Table 1: 0.12 GB. No number exists: the model is on the meta device, and the
          collectives of a fake group do nothing.
Try:      --vocabulary 50257. The embedding's rows no longer divide evenly, so rank 0
          gets some that the last ranks lack.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn

from sidebyside import at_least
from sidebyside.programs import run_program


def make_language_model(layers: int, width: int, vocabulary: int) -> nn.Sequential:
    """The parameters of a GPT without its order of work: 12 h^2 for each block."""

    def block() -> nn.Sequential:
        sizes = (width, 3 * width), (width, width), (width, 4 * width)
        linear = [nn.Linear(*size) for size in (*sizes, (4 * width, width))]
        return nn.Sequential(nn.LayerNorm(width), *linear, nn.LayerNorm(width))

    blocks = [block() for _ in range(layers)]
    return nn.Sequential(nn.Embedding(vocabulary, width), *blocks)


def kept_by_rank_0(
    ranks: int, layers: int = 36, width: int = 4096, vocabulary: int = 51_200
) -> tuple[int, int]:
    """Numbers of the whole model, and those that rank 0 keeps under FSDP2.

    Needs a process without a group, and ends without one.
    """
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=at_least(1, 100_000), default=1024)
    parser.add_argument("--layers", type=at_least(1, 128), default=36)
    parser.add_argument("--width", type=at_least(1, 65_536), default=4096)
    parser.add_argument("--vocabulary", type=at_least(1, 1_000_000), default=51_200)
    args = parser.parse_args()
    whole, kept = kept_by_rank_0(args.ranks, args.layers, args.width, args.vocabulary)
    share = whole / args.ranks
    print(f"the model: {whole:,} numbers, {16e-9 * whole:.1f} GB at 16 bytes each")
    print(f"1/{args.ranks} of them: {share:,.1f}")
    print(f"rank 0 keeps {kept:,} numbers, {16e-9 * kept:.2f} GB at 16 bytes each")
    print(f"more than its share by a factor of {kept / share:.5f}")


if __name__ == "__main__":
    run_program(main)
