"""Is our pipeline as fast as torch.distributed.pipelining, and does it learn the same?

Run:      python tests/benchmarks/pipeline_vs_torch.py
          Two ranks train the same stages with our executor and with torch's, in turn,
          the order changing from round to round. A quiet machine is wanted.
Look for: the ratio of the medians, ours/torch; the goal is at most 1.10.
Try:      --width 64. Now Python's share of the time is larger than the arithmetic's.
"""

import argparse
from statistics import median, quantiles

from parallel_by_hand.pipeline.pipeline_beside_torch import (
    SCHEDULES_OF_BOTH,
    both_pipelines_in_turn,
)
from sidebyside import at_least, machine, positive_int, run_ranks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--microbatches", type=at_least(2), default=8)
    parser.add_argument("--batch", type=positive_int, default=512)
    parser.add_argument("--width", type=positive_int, default=512)
    parser.add_argument("--rounds", type=at_least(2), default=31)
    args = parser.parse_args()
    if args.batch % args.microbatches:
        parser.error(
            f"argument --batch: must be a multiple of the {args.microbatches} "
            f"micro-batches, not {args.batch}"
        )

    print(machine(), "\n")
    print(f"2 ranks, 8 layers of width {args.width}, batch {args.batch},", end=" ")
    print(f"{args.microbatches} micro-batches, {args.rounds} rounds")
    for make in SCHEDULES_OF_BOTH:
        every = run_ranks(
            both_pipelines_in_turn,
            make,
            args.microbatches,
            args.batch,
            args.width,
            args.rounds,
        )
        found = every[-1]
        gap = max(
            abs(ours - theirs)
            for ours, theirs in zip(found["ours"], found["torch"], strict=True)
        )
        ours, theirs = found["ours seconds"], found["torch seconds"]
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        low, _, high = quantiles(ratios, n=4)
        print(
            f"{make.__name__:<12} ours {median(ours) * 1e3:.2f} ms, "
            f"torch {median(theirs) * 1e3:.2f} ms, "
            f"ratio {median(ours) / median(theirs):.3f} "
            f"(half of the rounds {low:.3f} to {high:.3f}), "
            f"largest difference of the loss {gap:.1e}"
        )


if __name__ == "__main__":
    main()
