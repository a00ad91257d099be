"""Time a training step of our DistributedDataParallel against torch's.

Run:      python tests/benchmarks/ddp_step_time.py
Look for: the last column, the median over all rounds of ours / torch in that round. In
          each round both do the same steps, one after the other, in turn first.
Try:      --rounds 40 on a machine that others use too.
"""

import argparse
import statistics
from functools import partial

import torch
from torch import nn

from parallel_by_hand.ddp.ddp_beside_torch import time_in_turn
from sidebyside import device, positive_int, run_ranks

NETWORKS = [(32, 1, 32), (256, 3, 64), (512, 3, 128), (1024, 3, 128)]
"""Width, hidden layers, images of each rank."""


def network(width: int, layers: int) -> nn.Module:
    torch.manual_seed(0)
    modules, inputs = [], 64
    for _ in range(layers):
        modules += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*modules, nn.Linear(width, 10)).to(device())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=positive_int, default=2, help="default: 2")
    parser.add_argument("--rounds", type=positive_int, default=20, help="default: 20")
    parser.add_argument("--steps", type=positive_int, default=10, help="default: 10")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.ranks} ranks, {args.rounds} rounds")
    print("width layers images      torch       ours   ours / torch  half lie in")
    for shape in NETWORKS:
        width, layers, images = shape
        seconds = run_ranks(
            time_in_turn,
            partial(network, width, layers),
            images,
            args.rounds,
            args.steps,
            world_size=args.ranks,
            timeout=600,
        )[0]
        pairs = zip(seconds["ours"], seconds["torch's"], strict=True)
        ratios = sorted(ours / torchs for ours, torchs in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        torchs, ours = (
            1e3 * statistics.median(seconds[k]) / args.steps
            for k in ("torch's", "ours")
        )
        print(
            f"{shape[0]:5} {shape[1]:6} {shape[2]:6} {torchs:7.2f} ms {ours:7.2f} ms"
            f" {statistics.median(ratios):10.2f} ×    {low:.2f} to {high:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
