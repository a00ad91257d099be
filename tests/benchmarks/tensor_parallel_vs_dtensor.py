"""Time a training step of our split MLP block against torch's DTensor.

Run:      python tests/benchmarks/tensor_parallel_vs_dtensor.py
Look for: the last column, the median over all rounds of ours / DTensor. In each
          round both take the same steps, one after the other, in turn first.
Try:      --rounds 40 on a machine that others use too.
"""

import argparse
import copy
import statistics
from time import perf_counter

import torch
import torch.distributed as dist

from parallel_by_hand.tensor_parallel.mlp import MLPBlock, split_as_pair
from sidebyside import device, positive_int, run_ranks

SIZES = [(64, 256), (512, 256), (1024, 256)]
"""Width h, samples."""


def time_ours_and_dtensor(width: int, samples: int, rounds: int, steps: int) -> dict:
    """Runs in each rank: seconds for the same steps of both, round after round."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel

    torch.manual_seed(0)
    block = MLPBlock(width).to(device())
    plan = {"wide": parallel.ColwiseParallel(), "narrow": parallel.RowwiseParallel()}
    mesh = init_device_mesh(device().type, (dist.get_world_size(),))
    theirs = parallel.parallelize_module(copy.deepcopy(block), mesh, plan)
    networks = {"ours": split_as_pair(block), "DTensor": theirs}
    x = torch.randn(samples, width, device=device(), requires_grad=True)
    seconds = {kind: [] for kind in networks}
    for turn in range(rounds + 1):
        for kind in networks if turn % 2 else reversed(networks):
            dist.barrier()
            began = perf_counter()
            for _ in range(steps):
                networks[kind].zero_grad()
                x.grad = None
                networks[kind](x).square().mean().backward()
            x.grad.sum().item()  # wait for a GPU, and for DTensor's last message
            seconds[kind].append(perf_counter() - began)
    return {kind: times[1:] for kind, times in seconds.items()}  # the first: warm-up


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=positive_int, default=2, help="default: 2")
    parser.add_argument("--rounds", type=positive_int, default=20, help="default: 20")
    parser.add_argument("--steps", type=positive_int, default=10, help="default: 10")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.ranks} ranks, {args.rounds} rounds")
    print("width samples    DTensor       ours   ours / DTensor  half lie in")
    for width, samples in SIZES:
        seconds = run_ranks(
            time_ours_and_dtensor,
            *(width, samples, args.rounds, args.steps),
            world_size=args.ranks,
            timeout=600,
        )[0]
        pairs = zip(seconds["ours"], seconds["DTensor"], strict=True)
        ratios = sorted(ours / library for ours, library in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        library, ours = (
            1e3 * statistics.median(seconds[kind]) / args.steps
            for kind in ("DTensor", "ours")
        )
        print(
            f"{width:5} {samples:7} {library:7.2f} ms {ours:7.2f} ms"
            f" {statistics.median(ratios):13.2f} ×    {low:.2f} to {high:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
