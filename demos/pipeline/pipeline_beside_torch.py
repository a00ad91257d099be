"""Run the same schedules with torch.distributed.pipelining and with ours, in turn.

Run:      python demos/pipeline/pipeline_beside_torch.py --microbatches 8
Look for: both train the same two stages, and their losses agree to within rounding. The
          ratio is ours over torch's: near 1 the two executors cost about the same.
Try:      --rounds 30. The ratio moves less.
"""

from statistics import median

import torch

from parallel_by_hand.pipeline.pipeline_beside_torch import (
    SCHEDULES_OF_BOTH,
    both_pipelines_in_turn,
)
from sidebyside import at_least, program_parser, run_program, run_ranks


def main() -> None:
    parser = program_parser(__doc__)
    add = parser.add_argument
    add("--microbatches", type=at_least(2, 64), default=4, help="default: 4")
    add("--rounds", type=at_least(1, 100), default=5, help="default: 5")
    args = parser.parse_args()
    sizes = args.microbatches, 8 * args.microbatches, 128, args.rounds
    print(f"{'schedule':<12} {'ours':>9} {'torch':>9} {'ratio':>7}  losses differ by")
    for make in SCHEDULES_OF_BOTH:
        last = run_ranks(both_pipelines_in_turn, make, *sizes, world_size=2)[-1]
        ours, torchs = (1e3 * median(last[f"{w} seconds"]) for w in ("ours", "torch"))
        losses = torch.tensor([last["ours"], last["torch"]], dtype=torch.float64)
        gap = losses.diff(dim=0).abs().max().item()
        print(
            f"{make.__name__:<12} {ours:6.2f} ms {torchs:6.2f} ms"
            f" {ours / torchs:5.2f} ×  {gap:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    run_program(main)
