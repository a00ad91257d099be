"""Time a training step of our DistributedDataParallel against torch's.

Run:      python tests/benchmarks/ddp_step_time.py
Look for: the last column, the median over all rounds of ours / torch in that round. In
          each round both do the same steps, one after the other, in turn first.
Try:      --rounds 40 on a machine that others use too.
"""

import argparse
import statistics
from time import perf_counter

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from demos.ddp.ddp_from_scratch import DistributedDataParallel
from sidebyside import device, load_digits, positive_int, run_ranks

NETWORKS = [(32, 1, 32), (256, 3, 64), (512, 3, 128), (1024, 3, 128)]
"""Width, hidden layers, images of each rank."""
MEGABYTES = 1  # of a bucket


def network(width: int, layers: int) -> nn.Module:
    torch.manual_seed(0)
    modules, inputs = [], 64
    for _ in range(layers):
        modules += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*modules, nn.Linear(width, 10)).to(device())


def time_steps(width: int, layers: int, images: int, rounds: int, steps: int) -> dict:
    """Runs in each rank: seconds per step, by implementation, one for each round."""
    x, y = (tensor[:images].to(device()) for tensor in load_digits())
    models = {
        "torch": nn.parallel.DistributedDataParallel(
            network(width, layers), bucket_cap_mb=MEGABYTES
        ),
        "ours": DistributedDataParallel(network(width, layers), MEGABYTES * 2**20),
    }
    optimizers = {
        k: torch.optim.SGD(m.parameters(), lr=0.01) for k, m in models.items()
    }
    seconds = {name: [] for name in models}
    for turn in range(-1, rounds):  # the first is to warm up
        for name in models if turn % 2 else reversed(models):
            dist.barrier()
            began = perf_counter()
            for _ in range(steps):
                optimizers[name].zero_grad()
                loss = F.cross_entropy(models[name](x), y)
                loss.backward()
                optimizers[name].step()
            loss.item()  # on a GPU: wait until all is done
            if turn >= 0:
                seconds[name].append((perf_counter() - began) / steps)
    return seconds


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
        seconds = run_ranks(
            time_steps,
            *shape,
            args.rounds,
            args.steps,
            world_size=args.ranks,
            timeout=600,
        )[0]
        pairs = zip(seconds["ours"], seconds["torch"], strict=True)
        ratios = sorted(ours / torchs for ours, torchs in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        torchs, ours = (1e3 * statistics.median(seconds[k]) for k in ("torch", "ours"))
        print(
            f"{shape[0]:5} {shape[1]:6} {shape[2]:6} {torchs:7.2f} ms {ours:7.2f} ms"
            f" {statistics.median(ratios):10.2f} ×    {low:.2f} to {high:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
