"""Time a training step of our ZeRO-3 against torch's FSDP2.

Run:      python tests/benchmarks/zero_3_vs_fsdp2.py
Look for: the last column, the median over all rounds of ours / FSDP2. In each round
          both take the same steps, one after the other, in turn first. Both call two
          all-gathers and a reduce-scatter for each unit; ours prefetches.
Try:      --rounds 40 on a machine that others use too.
"""

import argparse
import statistics
from time import perf_counter

import torch
import torch.distributed as dist

from parallel_by_hand.sharding.fsdp_beside_ours import (
    make_wide_stack,
    sgd_beside_fsdp2,
    shard_by_torch,
)
from parallel_by_hand.sharding.zero_3 import TunedZeRO3
from sidebyside import device, positive_int, run_ranks

SIZES = [(64, 256), (512, 256)]
"""Width h, samples of each rank."""


def time_ours_and_fsdp2(width: int, samples: int, rounds: int, steps: int) -> dict:
    """Runs in each rank: seconds for the same steps of both, round after round."""
    ours, theirs = make_wide_stack(width), shard_by_torch(make_wide_stack(width))
    trained = {
        "ours": (ours, TunedZeRO3(ours, sgd_beside_fsdp2, prefetch=True)),
        "FSDP2": (theirs, sgd_beside_fsdp2(theirs.parameters())),
    }
    x = torch.randn(samples, width, device=device())
    seconds = {kind: [] for kind in trained}
    for turn in range(rounds + 1):
        for kind in trained if turn % 2 else reversed(trained):
            network, stepper = trained[kind]
            dist.barrier()
            began = perf_counter()
            for _ in range(steps):
                network.zero_grad()
                loss = (network(x) - x).square().mean()
                loss.backward()
                stepper.step()
            loss.item()  # wait for a GPU
            seconds[kind].append(perf_counter() - began)
    return {kind: times[1:] for kind, times in seconds.items()}  # the first: warm-up


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=positive_int, default=2, help="default: 2")
    parser.add_argument("--rounds", type=positive_int, default=20, help="default: 20")
    parser.add_argument("--steps", type=positive_int, default=5, help="default: 5")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.ranks} ranks, {args.rounds} rounds")
    print("width samples      FSDP2       ours   ours / FSDP2  half lie in")
    for width, samples in SIZES:
        seconds = run_ranks(
            time_ours_and_fsdp2,
            *(width, samples, args.rounds, args.steps),
            world_size=args.ranks,
            timeout=600,
        )[0]
        pairs = zip(seconds["ours"], seconds["FSDP2"], strict=True)
        ratios = sorted(ours / library for ours, library in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        library, ours = (
            1e3 * statistics.median(seconds[kind]) / args.steps
            for kind in ("FSDP2", "ours")
        )
        print(
            f"{width:5} {samples:7} {library:7.2f} ms {ours:7.2f} ms"
            f" {statistics.median(ratios):12.2f} ×    {low:.2f} to {high:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
